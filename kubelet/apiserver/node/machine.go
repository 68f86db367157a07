package node

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/criadapter/criadapter/internal/hugepages"
	"github.com/criadapter/criadapter/kubelet/meminfo"
)

// machine reads files of the kernel and the system.
type machine struct {
	// root is the directory with proc, sys and etc.
	root string
	// statfs returns the size of a directory's filesystem.
	statfs func(dir string) (bytes int64, err error)
}

func thisMachine() machine { return machine{root: "/", statfs: statfs} }

func statfs(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	return int64(s.Blocks) * s.Frsize, nil
}

func (m machine) read(name string) (string, error) {
	content, err := os.ReadFile(filepath.Join(m.root, name))
	return strings.TrimSpace(string(content)), err
}

// first returns the content of the first file that is not empty, or "".
func (m machine) first(names ...string) string {
	for _, name := range names {
		if text, err := m.read(name); err == nil && text != "" {
			return text
		}
	}
	return ""
}

func (m machine) number(name string) (int64, error) {
	text, err := m.read(name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// memory returns the amounts of /proc/meminfo in bytes.
func (m machine) memory() (map[string]int64, error) {
	return meminfo.Read(filepath.Join(m.root, "proc/meminfo"))
}

// hugepages returns the bytes set aside as huge pages, by page size. A size without pages is included.
func (m machine) hugepages() (v1.ResourceList, error) {
	sizes, err := hugepages.Sizes(m.root)
	if err != nil {
		return nil, err
	}
	list := v1.ResourceList{}
	for _, size := range sizes {
		pages, err := m.number(fmt.Sprintf("sys/kernel/mm/hugepages/hugepages-%dkB/nr_hugepages", size>>10))
		if err != nil {
			return nil, err
		}
		name := v1.ResourceHugePagesPrefix + resource.NewQuantity(size, resource.BinarySI).String()
		list[v1.ResourceName(name)] = *resource.NewQuantity(pages*size, resource.BinarySI)
	}
	return list, nil
}

// info identifies the machine and its system. Unknown fields are empty, except OSImage.
func (m machine) info() v1.NodeSystemInfo {
	machineID := m.first("etc/machine-id", "var/lib/dbus/machine-id")
	systemUUID := cmp.Or(m.first("sys/class/dmi/id/product_uuid", "proc/device-tree/system-id",
		"proc/device-tree/vm,uuid"), machineID)
	return v1.NodeSystemInfo{
		MachineID: machineID, SystemUUID: strings.TrimRight(systemUUID, "\x00"),
		BootID:        m.first("proc/sys/kernel/random/boot_id"),
		KernelVersion: m.first("proc/sys/kernel/osrelease"), OSImage: m.osImage(),
		OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
	}
}

// osImage returns the distribution's name, or "Unknown".
func (m machine) osImage() string {
	for line := range strings.Lines(m.first("etc/os-release", "usr/lib/os-release")) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"'`)
		}
	}
	return "Unknown"
}
