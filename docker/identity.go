package docker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/containerd/errdefs"
)

// Identity is who a process runs as.
type Identity struct {
	UID, GID uint32
	// Groups are the supplementary groups, the primary one among them.
	Groups []uint32
}

// InitialIdentity returns the identity that the first process of a running
// container began with, names and the image's own groups resolved. The Docker
// API does not tell it, and the process itself may have changed it since. It is
// in the OCI specification that containerd's shim, the parent of that process,
// has in its working folder.
//
// It fails with ErrNotFound when the container has ended, or its runtime keeps
// no such shim.
func InitialIdentity(containerID string, pid int) (Identity, error) {
	return initialIdentity("/proc", containerID, pid)
}

func initialIdentity(proc, containerID string, pid int) (Identity, error) {
	absent := func(why string) error {
		return fmt.Errorf("identity of container %s: %w: %s", containerID, errdefs.ErrNotFound, why)
	}
	if pid <= 0 {
		return Identity{}, absent("it does not run")
	}
	status, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "status"))
	if err != nil {
		return Identity{}, absent(err.Error())
	}
	shim, _ := statusField(string(status), "PPid")
	folder, err := os.Readlink(filepath.Join(proc, shim, "cwd"))
	if err != nil {
		return Identity{}, absent(err.Error())
	}
	if filepath.Base(folder) != containerID {
		// Another process has the number by now, or there is no such shim.
		return Identity{}, absent("its parent is no shim of that container")
	}
	text, err := os.ReadFile(filepath.Join(folder, "config.json"))
	if err != nil {
		return Identity{}, absent(err.Error())
	}
	return parseIdentity(text)
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
