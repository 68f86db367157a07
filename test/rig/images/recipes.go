package images

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// BigLayerSize is the size of the one layer of test/big:latest in bytes. The content is random, hence as large on the
// wire.
const BigLayerSize = 20 << 20

// Moby is an image with the groups that the engine's own tests look for.
const Moby = "test/moby:latest"

// kitchen collects the images and holds what several of them share.
type kitchen struct {
	// architecture is a value of GOARCH, for all images.
	architecture string
	images       map[string]v1.Image
	// shell is the layer with busybox, and tools the layer of images with SpecTools above it.
	shell, tools v1.Layer
	// programs are our own programs by name, compiled.
	programs map[string][]byte
}

// newKitchen makes the layer with the shell, and compiles programs.
func (h Host) newKitchen(ctx context.Context, userland []entry, programs ...string) (*kitchen, error) {
	shell, err := newLayer(append(userland, accounts("", "")...)...)
	if err != nil {
		return nil, err
	}
	k := &kitchen{architecture: h.Architecture, images: make(map[string]v1.Image), shell: shell,
		programs: make(map[string][]byte)}
	for _, name := range programs {
		if k.programs[name], err = compile(ctx, name, h.Architecture); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// cook makes every image of the catalogue.
func (h Host) cook(ctx context.Context, userland []entry) (*kitchen, error) {
	k, err := h.newKitchen(ctx, userland, "hello", "nonewprivs", "webserver")
	if err != nil {
		return nil, err
	}
	for _, course := range []func() error{k.critest, k.critestServers, k.critestUsers, k.critestBenchmark, k.own,
		k.evil} {
		if err := course(); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// add makes an image of layers and config and puts it on the catalogue under each name.
func (k *kitchen) add(config v1.Config, layers []v1.Layer, names ...string) error {
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		return fmt.Errorf("make the image %s: %w", names[0], err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return err
	}
	file = file.DeepCopy()
	file.Created = v1.Time{Time: madeAt}
	file.OS, file.Architecture = "linux", k.architecture
	config.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, config.Env...)
	file.Config = config
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return fmt.Errorf("make the image %s: %w", names[0], err)
	}
	for _, name := range names {
		if _, twice := k.images[name]; twice {
			return fmt.Errorf("two images are named %s", name)
		}
		k.images[name] = image
	}
	return nil
}

// addShell makes an image with a shell and, in a layer above it, entries.
func (k *kitchen) addShell(config v1.Config, entries []entry, names ...string) error {
	layers := []v1.Layer{k.shell}
	if len(entries) > 0 {
		layer, err := newLayer(entries...)
		if err != nil {
			return err
		}
		layers = append(layers, layer)
	}
	if config.Cmd == nil && config.Entrypoint == nil {
		config.Cmd = []string{"sh"}
	}
	return k.add(config, layers, names...)
}

// own makes the well-behaved images of our own suites.
func (k *kitchen) own() error {
	for _, name := range []string{"test/busybox:latest", "test/crictl:latest", "test/crictl-account:latest"} {
		if err := k.addShell(v1.Config{}, marker(name), name); err != nil {
			return err
		}
	}
	if err := k.hello(); err != nil {
		return err
	}
	groups := accounts("", "wheel:x:10:\naudio:x:29:\nstaff:x:50:\n")
	if err := k.addShell(v1.Config{}, groups, Moby); err != nil {
		return err
	}
	tags := []string{"test/multi:a", "test/multi:b", "test/multi:c"}
	if err := k.addShell(v1.Config{}, []entry{file("multi", 0o644, []byte("multi\n"))}, tags...); err != nil {
		return err
	}
	content := make([]byte, BigLayerSize)
	if _, err := rand.NewChaCha8([32]byte{}).Read(content); err != nil {
		return err
	}
	return k.addShell(v1.Config{}, []entry{file("big", 0o644, content)}, "test/big:latest")
}

// hello makes the image of the small service that the examples run.
func (k *kitchen) hello() error {
	layer, err := newLayer(append(accounts("", ""), file("hello", 0o755, k.programs["hello"]),
		directory("tmp", 0o1777))...)
	if err != nil {
		return err
	}
	config := v1.Config{Entrypoint: []string{"/hello"}, ExposedPorts: map[string]struct{}{"8080/tcp": {}}}
	return k.add(config, []v1.Layer{layer}, helloImage)
}

// evil makes the image that tries to leak into the pod.
func (k *kitchen) evil() error {
	return k.addShell(evilConfig(), accounts("mallory:x:4242:4242:mallory:/home:/bin/sh\n", "mallory:x:4242:\n"),
		"test/evil:latest")
}

// evilConfig sets all fields of an image's config. Its labels imitate the labels of a CRI server's own sandboxes; the
// health check would run a process every second and leave a trace in /tmp; each volume would leave an anonymous volume
// behind; user, environment, working directory, stop signal and ports are legitimate and must be honoured or ignored
// exactly as the CRI says.
func evilConfig() v1.Config {
	return v1.Config{
		User:       "mallory",
		Env:        []string{"EVIL=from-image", "EMPTY="},
		WorkingDir: "/home",
		Cmd:        []string{"sh", "-c", "trap 'exit 42' USR1; while :; do sleep 1; done"},
		StopSignal: "SIGUSR1",
		Volumes:    map[string]struct{}{"/evil-volume": {}, "/var/evil": {}},
		ExposedPorts: map[string]struct{}{
			"6666/tcp": {}, "6666/udp": {},
		},
		Healthcheck: &v1.HealthConfig{
			Test:     []string{"CMD-SHELL", "echo checked >> /tmp/health"},
			Interval: time.Second, Timeout: time.Second, Retries: 1,
		},
		Labels: map[string]string{
			"io.kubernetes.docker.type":                  "podsandbox",
			"io.kubernetes.container.name":               "POD",
			"io.kubernetes.pod.name":                     "evil",
			"io.kubernetes.pod.namespace":                "kube-system",
			"io.kubernetes.pod.uid":                      "evil-uid",
			"io.kubernetes.sandbox.id":                   "evil-sandbox",
			"annotation.io.kubernetes.container.restart": "666",
			"evil": "yes",
		},
	}
}
