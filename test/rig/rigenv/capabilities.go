package rigenv

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// knownCapabilities are the capabilities that tests ask for, by their names.
var knownCapabilities = map[string]int{"CAP_SYS_RESOURCE": unix.CAP_SYS_RESOURCE}

// Capabilities are the names of the known capabilities that this process has. Some machines withhold them from root.
func Capabilities() []string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	return CapabilitiesOf(string(status))
}

// CapabilitiesOf returns the known effective capabilities of a /proc/PID/status.
func CapabilitiesOf(status string) []string {
	_, rest, _ := strings.Cut(status, "CapEff:")
	digits, _, _ := strings.Cut(rest, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(digits), 16, 64)
	if err != nil {
		return nil
	}
	var names []string
	for name, bit := range knownCapabilities {
		if set&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return names
}
