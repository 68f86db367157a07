package docker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/shimdir"
)

// Identity is the user and the groups of a process.
type Identity struct {
	UID, GID uint32
	// Groups are the supplementary groups, including the primary group.
	Groups []uint32
}

// InitialIdentity returns the identity that the first process of a running container began with, with names and the
// image's own groups resolved. The Docker API does not report this identity, and the process may have changed its
// identity since.
//
// It reads the OCI specification in the container's bundle. It finds the bundle through containerd's shim, the parent
// of the process.
//
// It fails with ErrNotFound if the container has ended or its runtime has no such shim. It fails in the same way if the
// shim is in other namespaces than this program.
func InitialIdentity(containerID string, pid int) (Identity, error) {
	return initialIdentity("/proc", containerID, pid)
}

func initialIdentity(proc, containerID string, pid int) (Identity, error) {
	text, err := runtimeSpec(proc, containerID, pid)
	if err != nil {
		return Identity{}, fmt.Errorf("identity of container %s: %w", containerID, err)
	}
	return parseIdentity(text)
}

// RuntimeSpec returns the OCI specification with which a running container was started. It reads the same file as
// InitialIdentity, and fails like it.
func RuntimeSpec(containerID string, pid int) ([]byte, error) {
	text, err := runtimeSpec("/proc", containerID, pid)
	if err != nil {
		return nil, fmt.Errorf("specification of container %s: %w", containerID, err)
	}
	return text, nil
}

func runtimeSpec(proc, containerID string, pid int) ([]byte, error) {
	absent := func(why string) error { return fmt.Errorf("%w: %s", errdefs.ErrNotFound, why) }
	if pid <= 0 {
		return nil, absent("it does not run")
	}
	status, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "status"))
	if err != nil {
		return nil, absent(err.Error())
	}
	field, _ := statusField(string(status), "PPid")
	shim, err := strconv.Atoi(field)
	if err != nil {
		return nil, absent(err.Error())
	}
	bundle, err := shimdir.Bundle(proc, containerID, pid, shim)
	if err != nil {
		return nil, absent(err.Error())
	}
	text, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	if err != nil {
		return nil, absent(err.Error())
	}
	return text, nil
}

// parseIdentity reads an OCI runtime specification.
func parseIdentity(text []byte) (Identity, error) {
	var spec struct {
		Process *struct {
			User struct {
				UID            uint32   `json:"uid"`
				GID            uint32   `json:"gid"`
				AdditionalGIDs []uint32 `json:"additionalGids"`
			} `json:"user"`
		} `json:"process"`
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return Identity{}, fmt.Errorf("reading an OCI specification: %w: %w", errdefs.ErrInternal, err)
	}
	if spec.Process == nil {
		return Identity{}, fmt.Errorf("reading an OCI specification: %w: it has no process", errdefs.ErrInternal)
	}
	user := spec.Process.User
	return Identity{UID: user.UID, GID: user.GID, Groups: user.AdditionalGIDs}, nil
}
