// Package meminfo reads the memory of a machine (proc_meminfo(5)).
package meminfo

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Read returns the amounts of a file like /proc/meminfo in bytes, by names such as MemTotal. A file without MemTotal is
// an error.
func Read(path string) (map[string]int64, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	amounts := map[string]int64{}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "kB" {
			continue // a count of pages, such as HugePages_Total
		}
		kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %s %w", path, fields[0], err)
		}
		amounts[strings.TrimSuffix(fields[0], ":")] = kilobytes << 10
	}
	if amounts["MemTotal"] == 0 {
		return nil, fmt.Errorf("%s has no MemTotal", path)
	}
	return amounts, nil
}
