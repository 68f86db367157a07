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
	// Name names the kind on a command line.
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
	// kernel is Debian's package of the kernel, and parameters are more words of the kernel's command line.
	kernel, parameters string
	// packages are Debian packages that not all kinds have.
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

// pc has the settings that all amd64 machines share.
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

// Kinds returns all kinds. The first is the default.
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

// hardware returns the emulator's flags for the hardware that programs see. A machine that resumes from saved memory
// needs the same flags. mitigations=off, because the kernel's mitigations of processor faults would only cost time in
// an emulated machine.
func (k Kind) hardware() []string {
	parameters := strings.TrimSpace("root=/dev/vda console=" + k.console + " mitigations=off " + k.parameters)
	return slices.Concat([]string{"-accel", "tcg,thread=multi"}, k.board, []string{
		"-smp", "2", "-m", "3072", "-nodefaults", "-display", "none", "-append", parameters,
		"-device", "virtio-net-pci,netdev=net", "-device", "virtio-rng-pci",
	})
}

// foreign says whether the machine has another architecture than this host.
func (k Kind) foreign() bool { return k.Architecture != images.ThisHost().Architecture }

// finishRoot makes the last changes to the root file system root. dir is the directory of the image that is made of it.
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

// ImageHost returns the host whose programs the images for a machine are made of. image is the directory with the
// machine's image.
func (k Kind) ImageHost(image string) images.Host {
	if !k.foreign() {
		return images.ThisHost()
	}
	return images.Host{Architecture: k.Architecture, Userland: filepath.Join(image, userlandFile)}
}
