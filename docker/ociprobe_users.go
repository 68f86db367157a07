package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/moby/api/types/mount"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/userns"
)

// probeUsers is the first host id that a probe maps, and probeUserSize is the number of ids. No user of the node has
// them.
const (
	probeUsers    = 1 << 30
	probeUserSize = 1 << 16
)

// proveUsers starts a container in an existing user namespace, like a pod's container, with a mount of the notes
// directory. It checks that the namespace's root owns the container's root directory and the mount.
func (p probe) proveUsers(ctx context.Context) error {
	if p.selinux {
		return errors.New(
			"the engine confines containers with SELinux, and a root file system with mapped owners would not have " +
				"the container's label")
	}
	maps := []userns.Mapping{{HostID: probeUsers, Size: probeUserSize}}
	child, err := userns.Make(maps, maps, 0)
	if err != nil {
		return err
	}
	defer child.Close()
	ids := []ocinote.IDMapping{{HostID: probeUsers, Size: probeUserSize}}
	note := ocinote.Note{
		Engine: p.engineID, Namespaces: map[string]string{"user": child.Path("user")}, UIDMappings: ids,
		GIDMappings:  ids,
		MappedMounts: []string{probeMount}, DropSysctls: true,
	}
	mounts := []mount.Mount{{Type: mount.TypeBind, Source: string(p.runtime.Notes), Target: probeMount, ReadOnly: true}}
	return p.run(ctx, note, mounts, lookForUsers)
}

// lookForUsers checks that a process has the id mapping of proveUsers, and that the mapped root owns / and probeMount.
func lookForUsers(pid int) error {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	text, err := os.ReadFile(filepath.Join(proc, "uid_map"))
	if err != nil {
		return err
	}
	if want := fmt.Sprint([]int{0, probeUsers, probeUserSize}); fmt.Sprint(strings.Fields(string(text))) != want {
		return fmt.Errorf("a container was started with the ids %q, want %s", text, want)
	}
	for _, path := range []string{"/", probeMount} {
		stat, err := os.Stat(filepath.Join(proc, "root", path))
		if err != nil {
			return err
		}
		owner, ok := stat.Sys().(*syscall.Stat_t)
		if !ok {
			return errors.New("the system does not report the owner of a file")
		}
		if owner.Uid != probeUsers || owner.Gid != probeUsers {
			return fmt.Errorf("%s of a container is of the user %d and the group %d, want %d", path, owner.Uid,
				owner.Gid, probeUsers)
		}
	}
	return nil
}
