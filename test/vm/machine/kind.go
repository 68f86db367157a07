package machine

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/test/rig/images"
)

// Kind is a kind of machine.
type Kind struct {
	// Name is what a command line names it by.
	Name string
	// Architecture is a value of GOARCH.
	Architecture string
	// Engine are settings of the engine that the kind needs, as in daemon.json.
	Engine map[string]any

	// emulator is QEMU's program.
	emulator images.Tool
	// board are the emulator's flags of the machine and its processor, and console is the device of its serial port.
	board   []string
	console string
	// kernel is Debian's package of it, and parameters are more words of its command line.
	kernel, parameters string
	// packages are what the machine has besides what all have.
	packages []string
	// finish makes the last changes to the root file system.
	finish func(ctx context.Context, root string) error
}

// AppArmor is the ordinary node of Debian.
func AppArmor() Kind {
	kind := pc()
	kind.Name, kind.packages = "apparmor", []string{"apparmor"}
	return kind
}

// SELinux is a node with SELinux in force, and Debian's policy of containers.
func SELinux() Kind {
	kind := pc()
	kind.Name, kind.packages, kind.parameters = "selinux", selinuxPackages(), "security=selinux"
	kind.Engine = map[string]any{"selinux-enabled": true}
	kind.finish = enforce
	return kind
}

// pc is what machines of the architecture amd64 have in common.
func pc() Kind {
	return Kind{
		Architecture: "amd64",
		emulator:     images.Tool{Program: "qemu-system-x86_64", Package: "qemu-system-x86"},
		board:        []string{"-machine", "q35", "-cpu", "max"}, console: "ttyS0",
		kernel: "linux-image-cloud-amd64",
	}
}

// ARM64 is the ordinary node of Debian with another architecture.
func ARM64() Kind {
	return Kind{
		Name: "arm64", Architecture: "arm64",
		emulator: images.Tool{Program: "qemu-system-aarch64", Package: "qemu-system-arm"},
		board:    []string{"-machine", "virt", "-cpu", "cortex-a72"}, console: "ttyAMA0",
		kernel: "linux-image-cloud-arm64", packages: []string{"apparmor", "busybox"},
	}
}

// Kinds are all of them. The first is the default.
func Kinds() []Kind { return []Kind{AppArmor(), SELinux(), ARM64()} }

// KindNames are the names of all kinds.
func KindNames() []string {
	var names []string
	for _, kind := range Kinds() {
		names = append(names, kind.Name)
	}
	return names
}

// KindNamed returns the kind of that name, the default one if it is empty.
func KindNamed(name string) (Kind, error) {
	kinds := Kinds()
	if name == "" {
		return kinds[0], nil
	}
	i := slices.IndexFunc(kinds, func(kind Kind) bool { return kind.Name == name })
	if i < 0 {
		return Kind{}, fmt.Errorf("there is no machine %q: want one of %s", name, strings.Join(KindNames(), ", "))
	}
	return kinds[i], nil
}

// hardware is the machine as its programs see it. One that goes on from saved memory must have the same. What the
// kernel does against faults of real processors only costs time here.
func (k Kind) hardware() []string {
	parameters := strings.TrimSpace("root=/dev/vda console=" + k.console + " mitigations=off " + k.parameters)
	return slices.Concat([]string{"-accel", "tcg,thread=multi"}, k.board, []string{
		"-smp", "2", "-m", "3072", "-nodefaults", "-display", "none", "-append", parameters,
		"-device", "virtio-net-pci,netdev=net", "-device", "virtio-rng-pci",
	})
}

// foreign says whether the machine has another architecture than this host.
func (k Kind) foreign() bool { return k.Architecture != images.ThisHost().Architecture }

// finishRoot makes the last changes to the root file system root, of which an image is made in dir.
func (k Kind) finishRoot(ctx context.Context, root, dir string) error {
	if k.foreign() {
		if err := saveUserland(ctx, root, dir); err != nil {
			return err
		}
	}
	if k.finish == nil {
		return nil
	}
	return k.finish(ctx, root)
}

// ImageHost says of which programs the images for a machine are made. The directory has the machine's image.
func (k Kind) ImageHost(image string) images.Host {
	if !k.foreign() {
		return images.ThisHost()
	}
	return images.Host{Architecture: k.Architecture, Userland: filepath.Join(image, userlandFile)}
}
