package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/criadapter/criadapter/internal/pause"
)

// SpecsPrefix is the repository prefix of the images that Kubernetes' own specs pull; the pause image has none.
const SpecsPrefix = e2ePrefix

// pauseName is the pause image's name, without a registry.
const pauseName = "pause:3.10.2"

// SpecTools are the programs that specs run in images besides busybox' applets. bash replaces busybox' shell, because
// it passes on environment variables whose names are not valid in a shell. This nc can probe a port without sending
// anything.
func SpecTools() []Tool {
	return []Tool{
		{Program: "bash", Package: "bash"},
		{Program: "curl", Package: "curl"},
		{Program: "nc.openbsd", Package: "netcat-openbsd"},
		{Program: "printenv", Package: "coreutils"},
	}
}

// Specs returns stand-ins for the images that Kubernetes' own specs pull, by their names without a registry. agnhost is
// the path of the static program in the specs' release. Like Catalog it makes them once.
func Specs(ctx context.Context, cacheDir, agnhost string) (map[string]v1.Image, error) {
	host := ThisHost()
	shell, err := host.readUserland(ctx)
	if err != nil {
		return nil, err
	}
	tools, err := readTools(ctx, SpecTools())
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(agnhost)
	if err != nil {
		return nil, err
	}
	key, err := host.cacheKey(ctx, shell)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(program)
	return openOrMake(cacheDir, "specs-"+key+"-"+hex.EncodeToString(sum[:6]), func() (map[string]v1.Image, error) {
		k, err := host.newKitchen(ctx, shell, "nonewprivs", "webserver")
		if err != nil {
			return nil, err
		}
		k.programs["agnhost"] = program
		return k.images, k.specs(withoutOthers(tools, shell))
	})
}

// withoutOthers returns the entries whose names no other entry has.
func withoutOthers(entries, others []entry) []entry {
	taken := make(map[string]bool)
	for _, other := range others {
		taken[other.header.Name] = true
	}
	var left []entry
	for _, e := range entries {
		if !taken[e.header.Name] {
			left = append(left, e)
		}
	}
	return left
}

// nmeter is all that specs use of the applet, which Debian's busybox lacks: the time of the day in milliseconds.
const nmeter = `#!/bin/bash
now=$EPOCHREALTIME
TZ=UTC printf '%(%T)T.%s\n' "${now%.*}" "${now: -6:3}"
`

// specs makes the images. Images with more than a shell get the tools.
func (k *kitchen) specs(tools []entry) error {
	if err := k.pause(); err != nil {
		return err
	}
	if err := k.agnhost(tools); err != nil {
		return err
	}
	nginx := []entry{file("usr/sbin/nginx", 0o755, k.programs["webserver"])}
	serve := v1.Config{Cmd: []string{"/usr/sbin/nginx", "-banner", "nginx: master process", "-pidfile",
		"/var/run/nginx.pid", "-listen", ":80"}}
	const setuid = 0o4755
	kitten := []entry{file("data.json", 0o644, []byte(`{"image":"kitten.jpg"}`+"\n")),
		file("etc/os-release", 0o644, []byte("NAME=\"Alpine Linux\"\n"))}
	for _, one := range []struct {
		config  v1.Config
		entries []entry
		names   []string
	}{
		{v1.Config{}, append(slices.Clone(tools), hardLink("bin/sh", "bin/bash"),
			file("bin/nmeter", 0o755, []byte(nmeter))), []string{e2ePrefix + "busybox:1.37.0-1"}},
		{v1.Config{}, marker("glibc-dns-testing"), []string{e2ePrefix + "glibc-dns-testing:2.0.0"}},
		{v1.Config{}, marker("ipc-utils"), []string{e2ePrefix + "ipc-utils:1.4"}},
		{v1.Config{User: "1234"}, marker("nonroot"), []string{e2ePrefix + "nonroot:1.5"}},
		{v1.Config{Cmd: []string{"nnp"}}, []entry{file("usr/local/bin/nnp", setuid, k.programs["nonewprivs"])},
			[]string{e2ePrefix + "nonewprivs:1.4"}},
		{v1.Config{}, kitten, []string{e2ePrefix + "kitten:1.8"}},
		{serve, nginx, []string{e2ePrefix + "nginx:1.15-4"}},
		{serve, append(marker("nginx-new"), nginx...), []string{e2ePrefix + "nginx:1.27-0"}},
	} {
		if err := k.addShell(one.config, one.entries, one.names...); err != nil {
			return err
		}
	}
	return nil
}

// pause takes the sandbox image that is built into criadapter: a program that waits, and ends when it is asked to.
func (k *kitchen) pause() error {
	archive, err := pause.Archive(k.architecture)
	if err != nil {
		return err
	}
	image, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil },
		nil)
	k.images[pauseName] = image
	return err
}

// agnhost makes the image that most specs run, with the tools, users and directories of the real one. It contains the
// image that its fake-registry-server serves.
func (k *kitchen) agnhost(tools []entry) error {
	members := accounts(
		"user-defined-in-image:x:1000:1000:user:/home:/bin/sh\n",
		"user-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n")
	pair, err := localhostPair()
	if err != nil {
		return err
	}
	testing, err := served(k.images[pauseName], "pause", "testing")
	if err != nil {
		return err
	}
	content := append(slices.Concat(members, pair, testing),
		file("agnhost", 0o755, k.programs["agnhost"]), hardLink("agnhost-2", "agnhost"), directory("uploads", 0o755),
		hardLink("bin/nc", "bin/nc.openbsd"))
	config := v1.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}}
	if err := k.addShell(config, append(content, tools...), e2ePrefix+"agnhost:2.63.0"); err != nil {
		return err
	}
	content = append(content, marker("agnhost-before")...)
	return k.addShell(config, append(content, tools...), e2ePrefix+"agnhost:2.55")
}
