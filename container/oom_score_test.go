package container

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/osthread"
	"github.com/criadapter/criadapter/internal/testutil"
)

// A resize in place lowers the OOM score of a burstable pod. If criadapter may not lower it, the other limits still
// apply.
func TestUpdateWhereTheOOMScoreCannotBeLowered(t *testing.T) {
	n, engine := newFakeNode(t)
	sleep := exec.Command("sleep", "1000")
	testutil.Must(t, sleep.Start())
	t.Cleanup(func() { _ = sleep.Process.Kill(); _ = sleep.Wait() })
	before, err := os.ReadFile(oomScoreFile(sleep.Process.Pid))
	testutil.Must(t, err)
	procs := newCgroup(t, n, "cgroup.procs")
	testutil.Must(t,
		os.WriteFile(filepath.Join(procs.dir, "cgroup.procs"), []byte(strconv.Itoa(sleep.Process.Pid)+"\n"), 0o644))
	id := n.started(n.pod(), limited(n))
	osthread.Run(func() { // on a thread without CAP_SYS_RESOURCE
		if err = dropSysResource(); err == nil {
			err = n.Update(t.Context(),
				update(id, &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 256 * mib, OomScoreAdj: -900}))
		}
	})
	testutil.Require(t, err == nil, "Update: %v", err)
	if inspect, err := engine.InspectContainer(t.Context(), id); err != nil || inspect.HostConfig.Memory != 256*mib {
		t.Errorf("%v, the engine has not got the new limit of memory: %+v", err, inspect.HostConfig)
	}
	if after, err := os.ReadFile(oomScoreFile(sleep.Process.Pid)); err != nil || string(after) != string(before) {
		t.Errorf("the score was %s and is %s, %v", before, after, err)
	}
}

// dropSysResource takes CAP_SYS_RESOURCE from the calling thread.
func dropSysResource() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	sets[0].Effective &^= 1 << unix.CAP_SYS_RESOURCE
	return unix.Capset(&header, &sets[0])
}
