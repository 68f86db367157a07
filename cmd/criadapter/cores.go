package main

import "golang.org/x/sys/unix"

// noCores keeps the kernel from writing a core dump of this process, which would contain passwords of registries. It
// does not affect programs that this process starts, such as CNI plugins.
func noCores() error {
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
