package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/criadapter/criadapter/internal/pause"
)

// SpecsPrefix is the repository prefix of the images that Kubernetes' own specs pull; the pause image has none.
const SpecsPrefix = e2ePrefix

// SpecsRepositories returns the file that makes Kubernetes' own specs pull from a registry, a host:port, instead of the
// public registries. Two registries of the specs keep their names: one does not exist, and the other needs an account.
func SpecsRepositories(registry string) string {
	return fmt.Sprintf("promoterE2eRegistry: %[1]s/%[2]s\nsigStorageRegistry: %[1]s/%[3]s\ngcRegistry: %[1]s\n"+
		"gcEtcdRegistry: %[1]s\n", registry, path.Clean(SpecsPrefix), path.Clean(storagePrefix))
}

// storagePrefix is the repository prefix of the images of CSI drivers.
const storagePrefix = "sig-storage/"

// pauseName is the pause image's name, without a registry.
const pauseName = "pause:3.10.2"

// SpecTools are the programs that specs run in images besides busybox' applets. bash is the shell that specs call sh,
// because it passes on environment variables whose names are not valid in a shell. This nc can probe a port without
// sending anything.
func SpecTools() []Tool {
	return []Tool{
		{Program: "bash", Package: "bash"},
		{Program: "curl", Package: "curl"},
		{Program: "dig", Package: "bind9-dnsutils"},
		{Program: "getent", Package: "libc-bin"},
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
	tools = withoutOthers(tools, shell)
	key, err := host.cacheKey(ctx, shell, tools)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(program)
	return openOrMake(cacheDir, "specs-"+key+"-"+hex.EncodeToString(sum[:6]), func() (map[string]v1.Image, error) {
		k, err := host.newKitchen(ctx, shell, "hostpathplugin", "nonewprivs", "webserver")
		if err != nil {
			return nil, err
		}
		k.programs["agnhost"] = program
		if k.tools, err = newLayer(append(tools, file("bin/nmeter", 0o755, []byte(nmeter)))...); err != nil {
			return nil, err
		}
		return k.images, k.specs()
	})
}

// withoutOthers returns the entries whose names are not in others.
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

// nmeter replaces the applet that Debian's busybox lacks. It prints the time of the day in milliseconds, and specs use
// nothing else of the applet.
const nmeter = `#!/bin/bash
now=$EPOCHREALTIME
TZ=UTC printf '%(%T)T.%s\n' "${now%.*}" "${now: -6:3}"
`

// specs makes the images.
func (k *kitchen) specs() error {
	for _, course := range []func() error{k.pause, k.agnhost, k.withTools} {
		if err := course(); err != nil {
			return err
		}
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
		{v1.Config{}, marker("ipc-utils"), []string{e2ePrefix + "ipc-utils:1.4"}},
		{v1.Config{User: "1234"}, marker("nonroot"), []string{e2ePrefix + "nonroot:1.5"}},
		{v1.Config{Cmd: []string{"nnp"}}, []entry{file("usr/local/bin/nnp", setuid, k.programs["nonewprivs"])},
			[]string{e2ePrefix + "nonewprivs:1.4"}},
		{v1.Config{}, []entry{file("hostpathplugin", 0o755, k.programs["hostpathplugin"])},
			[]string{storagePrefix + "hostpathplugin:v1.17.1"}},
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

// pause takes the sandbox image that is built into criadapter. Its program waits, and ends at SIGTERM or SIGINT.
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

// withTools makes the images that have the tools and no program of their own.
func (k *kitchen) withTools() error {
	// One spec runs /bin/sh and expects an error in the words of busybox' shell.
	busybox := []entry{symlink("usr/local/bin/sh", "/bin/bash")}
	return errors.Join(
		k.addTools(v1.Config{Cmd: []string{"sh"}}, busybox, "busybox:1.37.0-1"),
		k.addTools(v1.Config{Cmd: []string{"sh"}}, marker("glibc-dns-testing"), "glibc-dns-testing:2.0.0"))
}

// addTools makes an image with a shell, the tools and, in a layer above, entries.
func (k *kitchen) addTools(config v1.Config, entries []entry, name string) error {
	layer, err := newLayer(entries...)
	if err != nil {
		return err
	}
	return k.add(config, []v1.Layer{k.shell, k.tools, layer}, e2ePrefix+name)
}

// agnhost makes the image that most specs run, with the tools, users and directories of the real one. It contains the
// image that its fake-registry-server serves.
func (k *kitchen) agnhost() error {
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
		symlink("bin/nc", "nc.openbsd"))
	for _, one := range []struct {
		name, command string
		more          []entry
	}{
		{"agnhost:2.63.0", "pause", nil},
		{"agnhost:2.55", "pause", marker("agnhost-before")},
		{"nautilus:1.8", "test-webserver", []entry{file("data.json", 0o644, []byte(`{"image":"nautilus.jpg"}`+"\n"))}},
	} {
		config := v1.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{one.command}}
		if err := k.addTools(config, append(slices.Clone(content), one.more...), one.name); err != nil {
			return err
		}
	}
	return nil
}
