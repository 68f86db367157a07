package netns

import (
	"os"
	"strconv"

	"github.com/criadapter/criadapter/internal/proctable"
)

// HasOwn reports whether the process pid is in a network namespace that was made for it. Such a namespace differs from
// the namespaces of the process's parent, of this program and of process 1. A namespace of process 1 that cannot be
// read is not compared. HasOwn is false for a process that is gone.
func HasOwn(pid int) bool {
	process, err := proctable.Read(pid)
	if err != nil {
		return false
	}
	own, parents := namespaceID(strconv.Itoa(pid)), namespaceID(strconv.Itoa(process.Parent))
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
