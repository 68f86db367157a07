package cpumanager

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// systemCPUs is the kernel's directory of CPUs.
const systemCPUs = "/sys/devices/system/cpu"

// core is a physical core, which may have several CPUs. A core's number is unique only within its socket.
type core struct{ socket, number int }

// topology maps the online CPUs to their cores.
type topology map[int]core

// readTopology reads the online CPUs from the kernel's directory.
func readTopology(dir string) (topology, error) {
	path := filepath.Join(dir, "online")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	online, err := cpuset.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	all := topology{}
	for _, id := range online.UnsortedList() {
		in := filepath.Join(dir, "cpu"+strconv.Itoa(id), "topology")
		socket, err := readNumber(filepath.Join(in, "physical_package_id"))
		if err != nil {
			return nil, err
		}
		number, err := readNumber(filepath.Join(in, "core_id"))
		if err != nil {
			return nil, err
		}
		all[id] = core{socket, number}
	}
	return all, nil
}

func readNumber(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return number, nil
}

// cpus returns all CPUs.
func (t topology) cpus() cpuset.CPUSet {
	return cpuset.New(slices.Collect(maps.Keys(t))...)
}
