package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// The host ids that these tests map into their pods.
const (
	firstUID, firstGID = 500_000, 600_000
	manyIDs            = 65_536
)

func ownUsers() *runtimeapi.UserNamespace {
	return &runtimeapi.UserNamespace{
		Mode: runtimeapi.NamespaceMode_POD,
		Uids: []*runtimeapi.IDMapping{{HostId: firstUID, Length: manyIDs}},
		Gids: []*runtimeapi.IDMapping{{HostId: firstGID, Length: manyIDs}},
	}
}

// TestPodWithAUserNamespace runs two containers in a pod whose root is unprivileged on the node. criadapter restarts
// between them. The pod has a sandbox container only if its containers share a PID namespace.
func TestPodWithAUserNamespace(t *testing.T) {
	env := rigenv.Require(t)
	for name, pid := range map[string]runtimeapi.NamespaceMode{
		"held by the kernel":       runtimeapi.NamespaceMode_CONTAINER,
		"with processes in common": runtimeapi.NamespaceMode_POD,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigOn(t, env, "--sandbox-container=needed", "--oci-runtime=required")
			r.pull(env.Image("test/busybox:latest"))
			config := r.config("web", 3)
			config.Linux.SecurityContext.NamespaceOptions = &runtimeapi.NamespaceOption{Pid: pid,
				UsernsOptions: ownUsers()}
			config.Linux.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "80",
				"kernel.shm_rmid_forced": "1"}
			id := r.runConfig(config, "")
			volume := r.volume()
			first := r.startMapped(id, config, "first", volume)
			r.restart()
			r.wantReady(id)
			second := r.startMapped(id, config, "second", volume)
			r.lookInside(second, pid)
			r.lookTogether(first, second)
			r.lookOutside(volume, second)
			r.lookAtVolumes(env, id, config)
			r.removeLast(id)
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			testutil.Assert(t, err == nil && !strings.Contains(string(mounts), "/run/criadapter/users/") &&
				!strings.Contains(string(mounts), "/run/criadapter-oci"), "mounts are left: %s, %v", mounts, err)
		})
	}
}

// volume makes a directory with one file. root owns the directory and the file.
func (r *rig) volume() string {
	r.Helper()
	dir := filepath.Join(r.server.Dir, "volume")
	r.must(os.Mkdir(dir, 0o700))
	r.must(os.WriteFile(filepath.Join(dir, "given"), []byte("given\n"), 0o600))
	return dir
}

// startMapped starts a container with three mounts of the volume. It writes to its output streams, its root and the
// volume.
func (r *rig) startMapped(sandboxID string, pod *runtimeapi.PodSandboxConfig, name, volume string) string {
	r.Helper()
	users := ownUsers()
	return r.startConfig(sandboxID, pod, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: rigenv.Require(r.T).Image("test/busybox:latest")},
		Command: []string{"sh", "-c",
			"echo reopened >/dev/stdout; echo too >/dev/stderr; head -c 1000000 /dev/zero >/large; echo " +
				"$HOSTNAME >>/data/names; sleep 1000"},
		LogPath: name + ".log",
		Mounts: []*runtimeapi.Mount{
			{HostPath: volume, ContainerPath: "/data", UidMappings: users.GetUids(), GidMappings: users.GetGids()},
			{HostPath: volume, ContainerPath: "/plain", Readonly: true},
			{HostPath: filepath.Join(volume, "given"), ContainerPath: "/file", Readonly: true,
				UidMappings: users.GetUids(), GidMappings: users.GetGids()},
		},
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: pod.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
	})
}

// lookAtVolumes writes to the volumes that the engine makes for an image, and checks the owners of files in mounted
// images.
func (r *rig) lookAtVolumes(env rigenv.Env, sandboxID string, pod *runtimeapi.PodSandboxConfig) {
	r.Helper()
	image := &runtimeapi.ImageSpec{Image: env.Image("test/evil:latest")}
	r.pull(image.GetImage())
	id := r.startConfig(sandboxID, pod, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "volumes"}, Image: image, LogPath: "volumes.log",
		Command: []string{"sleep", "1000"},
		Mounts: []*runtimeapi.Mount{{
			ContainerPath: "/img", Image: &runtimeapi.ImageSpec{Image: env.Image("test/busybox:latest")},
			Readonly:    true,
			UidMappings: ownUsers().GetUids(), GidMappings: ownUsers().GetGids(),
		}, {
			ContainerPath: "/unasked", Image: &runtimeapi.ImageSpec{Image: env.Image("test/busybox:latest")},
			Readonly: true,
		}},
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: pod.GetLinux().GetSecurityContext().GetNamespaceOptions(),
			RunAsUser:        &runtimeapi.Int64Value{},
		}},
	})
	if got := r.exec(id,
		"cd /evil-volume && touch /var/evil/a b && stat -c %u:%g . b /var/evil/a /img /img/bin /unasked/bin | "+
			"xargs"); got != "0:0 0:0 0:0 0:0 0:0 0:0" {
		r.Errorf("the owners of the image's volumes and of the mounted image are %q", got)
	}
}

func (r *rig) lookInside(id string, pid runtimeapi.NamespaceMode) {
	r.Helper()
	for command, want := range map[string]string{
		"id -u":                          "0",
		"cat /proc/self/uid_map | xargs": "0 500000 65536",
		"cat /proc/self/gid_map | xargs": "0 600000 65536",
		"hostname":                       "web",
		"stat -c %u:%g / /etc /data /data/given /plain /file /dev/pts | " +
			"xargs": "0:0 0:0 0:0 0:0 65534:65534 0:0 0:0",
		"touch /data/a /b /dev/shm/c && mkdir /tmp/d && chown 7:8 /b && " +
			"stat -c %u:%g /b /data/a": "7:8\n0:0",
		"cat /plain/given 2>&1 | grep -c denied": "1",
		"cat /file":                              "given",
		"echo x >/dev/stdout; echo y >/dev/stderr; cat /dev/null":                            "x",
		"cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/shm_rmid_forced": "80\n1",
		"cat /proc/sys/net/ipv4/ping_group_range":                                            "0\t65535",
		"ls -d /sys/class/net/eth0":                                                          "/sys/class/net/eth0",
		"ls -d /dev/mqueue && touch /dev/mqueue/q && rm /dev/mqueue/q":                       "/dev/mqueue",
		"ping -c 1 -W 5 127.0.0.1 | grep -c 'bytes from'":                                    "1",
		"grep -c . /etc/hosts /etc/resolv.conf >/dev/null; grep -c web /etc/hosts":           "1",
	} {
		testutil.Equal(r, r.exec(id, command), want, "%s", command)
	}
	if pid == runtimeapi.NamespaceMode_POD {
		got := r.exec(id, "ps | grep -c 'sleep 100[0]'")
		testutil.Assert(r, got == "2", "%s processes of the pod are seen, want 2", got)
	}
}

// lookTogether checks that the pod's containers share namespaces, /dev/shm and the volume. It also reads the second
// container's log.
func (r *rig) lookTogether(one, other string) {
	r.Helper()
	for _, kind := range []string{"user", "net", "ipc"} {
		link := "readlink /proc/self/ns/" + kind
		if a, b := r.exec(one, link), r.exec(other, link); a != b || a == "" {
			r.Errorf("the namespaces %s are %s and %s", kind, a, b)
		}
	}
	r.exec(one, "echo told > /dev/shm/word")
	testutil.Equal(r, r.exec(other, "cat /dev/shm/word; cat /data/names"), "told\nweb\nweb",
		"the second container reads")
	log, err := os.ReadFile(filepath.Join(r.server.Dir, "logs", "web", "second.log"))
	testutil.Assert(r, err == nil && strings.Contains(string(log), "stdout F reopened") &&
		strings.Contains(string(log), "stderr F too"), "the log is %s, %v", log, err)
}

// lookOutside checks the owners of the container's process and files as the node sees them.
func (r *rig) lookOutside(volume, id string) {
	r.Helper()
	var stat syscall.Stat_t
	if err := syscall.Stat(filepath.Join(volume, "a"), &stat); err != nil || stat.Uid != 0 || stat.Gid != 0 {
		r.Errorf("the owner of root's file in the volume is %d:%d, %v", stat.Uid, stat.Gid, err)
	}
	inspect, err := r.engine.InspectContainer(r.Context(), id)
	r.must(err)
	proc := fmt.Sprintf("/proc/%d", inspect.State.Pid)
	text, err := os.ReadFile(proc + "/status")
	r.must(err)
	for _, want := range []string{"\nUid:\t500000\t500000\t500000\t500000\n",
		"\nGid:\t600000\t600000\t600000\t600000\n"} {
		testutil.Assert(r, strings.Contains(string(text), want), "on the node the process is %s, want %q", text, want)
	}
	if err := syscall.Stat(proc+"/root/etc", &stat); err != nil || stat.Uid != firstUID || stat.Gid != firstGID {
		r.Errorf("on the node the owner of /etc is %d:%d, %v", stat.Uid, stat.Gid, err)
	}
	r.wantWritten(id, 1_000_000, 2_000_000)
}

// wantWritten waits until the writable layer, which is counted in the background, is reported with least to most bytes.
func (r *rig) wantWritten(id string, least, most uint64) {
	r.Helper()
	var used uint64
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		stats, err := r.runtime().ContainerStats(r.Context(), &runtimeapi.ContainerStatsRequest{ContainerId: id})
		r.must(err)
		if used = stats.GetStats().GetWritableLayer().GetUsedBytes().GetValue(); used >= least && used <= most {
			return
		}
	}
	r.Errorf("the writable layer has %d bytes, want %d to %d", used, least, most)
}
