// Package shimdir finds the bundle of a container: the directory in which containerd's shim keeps the container's OCI
// specification and how it calls the runtime.
package shimdir

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// taskDir is the directory of containerd with the bundles of its version 2 shims, NAMESPACE/ID.
const taskDir = "io.containerd.runtime.v2.task"

// namespaces are the kinds of namespaces that sameNamespaces compares.
var namespaces = []string{"mnt", "pid", "user", "uts", "ipc", "net", "cgroup", "time"}

// Bundle returns the bundle of the container id, whose first process is pid. shim is the parent of that process. The
// shim works in the bundle of its first container, and the bundles of its other containers are beside it. proc is the
// directory /proc.
//
// The engine's pid can be out of date and belong to another process. A container could make the working directory of
// that process's parent look like a bundle. So Bundle trusts only a parent in this program's namespaces. Bundle
// therefore fails if the shim is in another namespace, for example because criadapter runs in a container.
func Bundle(proc, id string, pid, shim int) (string, error) {
	parent := filepath.Join(proc, strconv.Itoa(shim))
	if err := sameNamespaces(filepath.Join(proc, "self"), parent); err != nil {
		return "", err
	}
	cwd, err := os.Readlink(filepath.Join(parent, "cwd"))
	if err != nil {
		return "", errors.New("the directory of the container's shim cannot be read")
	}
	namespaceDir := filepath.Dir(cwd)
	if filepath.Base(filepath.Dir(namespaceDir)) != taskDir {
		return "", fmt.Errorf("the parent of the container's process is not a shim: it works in %s", cwd)
	}
	bundle := filepath.Join(namespaceDir, id)
	text, err := os.ReadFile(filepath.Join(bundle, "init.pid"))
	if err != nil {
		return "", fmt.Errorf("the container has no bundle in %s", namespaceDir)
	}
	if string(bytes.TrimSpace(text)) != strconv.Itoa(pid) {
		return "", errors.New("the container's bundle has another process id than the engine")
	}
	return bundle, nil
}

// sameNamespaces fails if the shim is in another namespace than this program. self and shim are their directories in
// /proc.
func sameNamespaces(self, shim string) error {
	for _, kind := range namespaces {
		own, err := os.Readlink(filepath.Join(self, "ns", kind))
		if os.IsNotExist(err) {
			continue // this kernel lacks the kind
		}
		other, otherErr := os.Readlink(filepath.Join(shim, "ns", kind))
		if err != nil || otherErr != nil || own != other {
			return fmt.Errorf("the engine's shim is in another %s namespace", kind)
		}
	}
	return nil
}
