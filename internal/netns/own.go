package netns

import (
	"fmt"
	"os"
	"strings"
)

// HasOwn reports whether the process pid is in a network namespace that was made for it. Such a namespace differs from
// the namespaces of the process's parent, of this program and of process 1. A namespace of process 1 that cannot be
// read is not compared. HasOwn is false for a process that is gone.
func HasOwn(pid int) bool {
	own, parents := namespaceID(fmt.Sprint(pid)), namespaceID(parentOf(pid))
	if own == "" || parents == "" {
		return false
	}
	return own != parents && own != namespaceID("self") && own != namespaceID("1")
}

// namespaceID names the network namespace of a process, empty when that is not known.
func namespaceID(process string) string {
	id, err := os.Readlink("/proc/" + process + "/ns/net")
	if err != nil {
		return ""
	}
	return id
}

// parentOf returns the number of a process's parent, empty when it is gone.
func parentOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name, in parentheses, may hold anything: "12 (a) b) S 1 …".
	text := string(stat)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return ""
	}
	return fields[1]
}
