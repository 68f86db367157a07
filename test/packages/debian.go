package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/rig/cache"
	"github.com/criadapter/criadapter/test/rig/images"
)

// The names in the cache.
const (
	suiteName     = "bookworm"
	rootKey       = "debian-" + suiteName + "-systemd-docker-rpm_1"
	prometheusKey = "debian-" + suiteName + "-prometheus_1"
	openrcKey     = "debian-" + suiteName + "-openrc_1"
)

// missingParts says what would have to be downloaded, empty for nothing.
func missingParts() (string, error) {
	for _, key := range []string{rootKey, prometheusKey, openrcKey} {
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

// debianRoot is a root file system with systemd, Docker Engine and rpm, of Debian's packages. It takes a minute the
// first time.
func debianRoot(ctx context.Context) (string, error) {
	return cache.Fill(ctx, rootKey, func(ctx context.Context, dir string) error {
		if err := images.Packages(ctx, images.Tool{Program: "debootstrap", Package: "debootstrap"}); err != nil {
			return err
		}
		debootstrap, err := images.FindTool("debootstrap")
		if err != nil {
			return err
		}
		_, err = command(ctx, "", debootstrap, "--variant=minbase",
			"--include=systemd,systemd-sysv,dbus,procps,docker.io,iptables,iproute2,rpm", suiteName, filepath.Join(dir, "root"))
		return err
	})
}

// prometheus is a directory with Prometheus and its promtool, from Debian's package, which is not installed.
func prometheus(ctx context.Context) (string, error) {
	return cache.Fill(ctx, prometheusKey, func(ctx context.Context, dir string) error {
		if err := unpack(ctx, dir, "prometheus"); err != nil {
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

// openrc is a directory with the files of OpenRC in its directory all, from Debian's packages.
func openrc(ctx context.Context) (string, error) {
	return cache.Fill(ctx, openrcKey, func(ctx context.Context, dir string) error {
		return unpack(ctx, dir, "openrc", "libeinfo1", "librc1")
	})
}

// unpack downloads packages and leaves their files, and no more, in the directory all.
func unpack(ctx context.Context, dir string, packages ...string) error {
	if _, err := command(ctx, dir, "apt-get", append([]string{"-q", "download"}, packages...)...); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(debs) != len(packages) {
		return fmt.Errorf("apt-get downloaded %q, %v", debs, err)
	}
	for _, deb := range debs {
		if _, err := command(ctx, dir, "dpkg-deb", "-x", deb, "all"); err != nil {
			return err
		}
		if err := os.Remove(deb); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program in dir and returns its output, which an error has, too.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	return commandWith(ctx, dir, nil, name, args...)
}

func commandWith(ctx context.Context, dir string, environ []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environ...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
