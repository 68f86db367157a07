package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/debian/machine"
	"github.com/criadapter/criadapter/test/rig/cache"
)

// The names in the cache.
const (
	prometheusKey = "debian-" + debian.Suite + "-prometheus_1"
	openrcKey     = "debian-" + debian.Suite + "-openrc_1"
)

// missingParts names a part that must be downloaded or built first. It is empty if the cache has all parts.
func missingParts() (string, error) {
	for _, key := range []string{machine.RootKey, prometheusKey, openrcKey} {
		has, err := cache.Has(key)
		if err != nil {
			return "", err
		}
		if !has {
			return "Debian's parts are not in the cache (" + key + "); make package-test downloads them", nil
		}
	}
	has, err := peers.HasCRIDockerd()
	if err == nil && !has {
		return "cri-dockerd is not in the cache; make package-test builds it", nil
	}
	return "", err
}

// prometheus returns a directory with Prometheus and promtool, unpacked from Debian's package.
func prometheus(ctx context.Context) (string, error) {
	return cache.Fill(ctx, prometheusKey, func(ctx context.Context, dir string) error {
		if err := debian.Unpack(ctx, dir, "prometheus"); err != nil {
			return err
		}
		for _, program := range []string{"prometheus", "promtool"} {
			if err := os.Rename(filepath.Join(dir, "all/usr/bin", program), filepath.Join(dir, program)); err != nil {
				return err
			}
		}
		return os.RemoveAll(filepath.Join(dir, "all"))
	})
}

// openrc returns a directory whose subdirectory all has the files of OpenRC from Debian's packages.
func openrc(ctx context.Context) (string, error) {
	return cache.Fill(ctx, openrcKey, func(ctx context.Context, dir string) error {
		return debian.Unpack(ctx, dir, "openrc", "libeinfo1", "librc1")
	})
}
