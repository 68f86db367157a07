package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Switches counts the context switches of the processes' living threads so far, voluntary or not. A process that sleeps
// has none, so this counts how often it wakes.
func Switches(pids []int) (int, error) {
	sum := 0
	for _, pid := range pids {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		if err != nil || len(files) == 0 {
			return 0, fmt.Errorf("threads of process %d: %w", pid, os.ErrNotExist)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // the thread has just ended
			}
			sum += switchesIn(string(text))
		}
	}
	return sum, nil
}

func switchesIn(status string) int {
	sum := 0
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		if name == "voluntary_ctxt_switches" || name == "nonvoluntary_ctxt_switches" {
			n, _ := strconv.Atoi(strings.TrimSpace(value)) // a number in the kernel's format
			sum += n
		}
	}
	return sum
}
