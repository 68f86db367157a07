package eviction

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processIDs returns the number of process ids in use and their limit. Threads have ids, too. proc is the directory of
// the proc filesystem.
func processIDs(proc string) (used, limit int64, err error) {
	ids, err := number(proc, "sys/kernel/pid_max", 0)
	if err != nil {
		return 0, 0, err
	}
	threads, err := number(proc, "sys/kernel/threads-max", 0)
	if err != nil {
		return 0, 0, err
	}
	// In "0.00 0.01 0.05 1/197 4711", the fourth field has the runnable tasks and all tasks.
	used, err = number(proc, "loadavg", 3)
	return used, min(ids, threads), err
}

// number returns the number in a field of a proc file. If the field has a slash, only the part after the slash counts.
func number(proc, name string, index int) (int64, error) {
	path := filepath.Join(proc, name)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) <= index {
		return 0, fmt.Errorf("%s has %d fields, want more than %d", path, len(fields), index)
	}
	field := fields[index]
	n, err := strconv.ParseInt(field[strings.LastIndexByte(field, '/')+1:], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}
