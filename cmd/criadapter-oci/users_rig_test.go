package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/internal/userns"
)

const (
	someUIDs = 300000
	someGIDs = 400000
	mapSize  = 65536
)

// volume makes a directory on the file system of the test's directory.
func (r realEngine) volume() string {
	r.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(string(r.notes)), "volume")
	testutil.Must(r, err)
	return dir
}

// createMapped creates a container that runs as user with volume mounted at /data, and saves its note.
func (r realEngine) createMapped(namespace, volume, user string) string {
	r.Helper()
	id, err := r.client.CreateContainer(r.Context(), docker.ContainerSpec{
		Config: &container.Config{Image: r.image, User: user, NetworkDisabled: true, Cmd: []string{
			"sh", "-c",
			"echo reopened >/dev/stdout; touch /made /data/made; mkdir /tmp/d; chown 7:8 /tmp/d; chmod u+s " +
				"/made; mv /etc/passwd /etc/moved; sleep 1000",
		}},
		Host: &container.HostConfig{
			Runtime: "criadapter", NetworkMode: "none", IpcMode: "none",
			Mounts: []mount.Mount{{Type: mount.TypeBind, Source: volume, Target: "/data"}},
		},
		Network: &network.NetworkingConfig{},
	})
	testutil.Must(r, err)
	err = r.notes.Save(id, ocinote.Note{
		Namespaces:   map[string]string{"user": namespace},
		UIDMappings:  []ocinote.IDMapping{{HostID: someUIDs, Size: mapSize}},
		GIDMappings:  []ocinote.IDMapping{{HostID: someGIDs, Size: mapSize}},
		MappedMounts: []string{"/data"},
		Sysctls:      map[string]string{"net.ipv4.ping_group_range": "0 65535"},
	})
	testutil.Must(r, err)
	return id
}

// TestRigUserNamespace runs a container in an existing user namespace. The container's root is unprivileged on the
// node.
func TestRigUserNamespace(t *testing.T) {
	r := newRealEngine(t)
	child, err := userns.Make([]userns.Mapping{{HostID: someUIDs, Size: mapSize}},
		[]userns.Mapping{{HostID: someGIDs, Size: mapSize}}, 0)
	testutil.Must(t, err)
	defer child.Close()
	for _, user := range []string{"", "1000:1000"} {
		t.Run("user "+user, func(t *testing.T) {
			r := r
			r.T = t
			volume := r.volume()
			testutil.Must(t, os.Chmod(volume, 0o777))
			id := r.createMapped(child.Path("user"), volume, user)
			for range 2 { // the second start finds the files of the first
				testutil.Must(t, r.client.StartContainer(t.Context(), id))
				r.lookMapped(id, child, user != "")
				testutil.Must(t, r.client.StopContainer(t.Context(), id, 0))
			}
			testutil.Must(t, r.client.RemoveContainer(t.Context(), id))
			r.lookAfter()
		})
	}
}

// lookMapped checks the running container from the node and from inside.
func (r realEngine) lookMapped(id string, child *userns.Child, plain bool) {
	r.Helper()
	inspect, err := r.client.InspectContainer(r.Context(), id)
	testutil.Must(r, err)
	proc := fmt.Sprintf("/proc/%d", inspect.State.Pid)
	its, err := os.Readlink(proc + "/ns/user")
	want, wantErr := os.Readlink(child.Path("user"))
	testutil.Assert(r, err == nil && wantErr == nil && its == want,
		"the container is in %s, want %s: %v, %v", its, want, err, wantErr)
	uid, gid := 0, 0
	if plain {
		uid, gid = 1000, 1000
	}
	status, err := os.ReadFile(proc + "/status")
	out := strings.Repeat(fmt.Sprint(someUIDs+uid, " "), 4)
	testutil.Assert(r, err == nil && hasField(string(status), "Uid:", strings.TrimSpace(out)),
		"outside, the process does not run as user %s: %s, %v", out, status, err)
	files := map[string]string{"/etc": "0:0", "/data/made": fmt.Sprint(uid, ":", gid), "/data": "0:0",
		"/dev/pts": "0:0"}
	if !plain {
		files["/made"], files["/tmp/d"], files["/etc/moved"] = "0:0", "7:8", "0:0"
	}
	for path, want := range files {
		if text, err := r.run(id, "stat", "-c", "%u:%g", path); err != nil || strings.TrimSpace(text) != want {
			r.Errorf("inside, %s belongs to %q, want %s: %v", path, text, want, err)
		}
	}
	if text, err := r.run(id, "sh", "-c",
		"id -u; cat /proc/self/uid_map; readlink /proc/self/ns/user; echo streams >/dev/stdout; echo streams "+
			">/dev/stderr"); err != nil ||
		!slices.Equal(strings.Fields(text),
			[]string{fmt.Sprint(uid), "0", fmt.Sprint(someUIDs), fmt.Sprint(mapSize), want, "streams", "streams"}) {
		r.Errorf("a command says %q, %v", text, err)
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(proc+"/root/etc", &stat); err != nil || stat.Uid != someUIDs || stat.Gid != someGIDs {
		r.Errorf("outside, /etc belongs to %d:%d, %v", stat.Uid, stat.Gid, err)
	}
}

// lookAfter checks that no mounts and directories are left when no container runs.
func (r realEngine) lookAfter() {
	r.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	testutil.Assert(r, err == nil && !strings.Contains(string(mounts), filesDir),
		"mounts are left: %s, %v", mounts, err)
	for _, dir := range []string{rootDir, stageDir} {
		entries, err := os.ReadDir(dir)
		testutil.Assert(r, err == nil && len(entries) == 0, "%s has %v, %v", dir, entries, err)
	}
}
