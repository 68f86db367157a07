package state

import (
	"reflect"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

var (
	t0 = time.Unix(100, 0)
	t1 = time.Unix(200, 0)
	t2 = time.Unix(300, 0)
	t3 = time.Unix(400, 0)
)

func TestMergeContainer(t *testing.T) {
	ours := &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{CpuShares: 7}}
	theirs := &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{CpuShares: 2}}
	isCreated := ContainerStatus{}
	isRunning := ContainerStatus{Running: true, PID: 5, StartedAt: t1}
	hasExited := ContainerStatus{StartedAt: t1, FinishedAt: t2, ExitCode: 3}
	anotherRun := ContainerStatus{StartedAt: t2, FinishedAt: t3}
	runsAgain := ContainerStatus{Running: true, PID: 6, StartedAt: t3}
	failedStart := ContainerStatus{StartedAt: t1, FinishedAt: t1, ExitCode: 127, Error: "no such command"}
	tests := map[string]struct {
		old, seen, want ContainerStatus
		isNewExit       bool
	}{
		"started":                                {isCreated, isRunning, isRunning, false},
		"ended":                                  {isRunning, hasExited, hasExited, true},
		"started and ended between two looks":    {isCreated, hasExited, hasExited, true},
		"still running":                          {isRunning, isRunning, isRunning, false},
		"still ended":                            {hasExited, hasExited, hasExited, false},
		"old news after the end":                 {hasExited, isRunning, hasExited, false},
		"started again":                          {hasExited, runsAgain, runsAgain, false},
		"the end of another run":                 {hasExited, anotherRun, anotherRun, true},
		"a failed start that the engine reports": {isCreated, failedStart, failedStart, true},
		"a failed start that only we know":       {failedStart, isCreated, failedStart, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			old := &Container{ID: "c", Meta: ContainerMeta{LogPath: "/log"}, Status: tt.old}
			seen := &Container{ID: "c", Meta: ContainerMeta{Name: "from labels"}, Status: tt.seen}
			old.Status.Resources, seen.Status.Resources, tt.want.Resources = ours, theirs, ours
			oldBefore, seenBefore := *old, *seen
			got := mergeContainer(old, seen)
			testutil.Assert(t, reflect.DeepEqual(got.Status, tt.want),
				"the status is %+v, want %+v", got.Status, tt.want)
			testutil.Assert(t, got.Meta.LogPath == "/log" && got.Meta.Name == "",
				"the merge changed a constant field: %+v", got.Meta)
			testutil.Assert(t, newExit(old, seen) == tt.isNewExit, "newExit is %v", !tt.isNewExit)
			testutil.Assert(t, reflect.DeepEqual(*old, oldBefore) && reflect.DeepEqual(*seen, seenBefore),
				"the merge changed its arguments")
		})
	}
	first := &Container{ID: "c", Status: hasExited}
	began := isRunning
	began.Identity = &docker.Identity{UID: 7}
	for name, tt := range map[string]struct {
		seen ContainerStatus
		want *docker.Identity
	}{"of the run that ended": {hasExited, began.Identity}, "of another run": {runsAgain, nil}} {
		got := mergeContainer(&Container{ID: "c", Status: began}, &Container{ID: "c", Status: tt.seen})
		testutil.Assert(t, got.Status.Identity == tt.want,
			"the identity %s is %v, want %v", name, got.Status.Identity, tt.want)
	}
	testutil.Assert(t, mergeContainer(nil, first) == first,
		"a container that was never seen before is not published as it is")
	testutil.Assert(t, !newExit(nil, first), "newExit is true for a container that was never seen")
}

func TestMergePod(t *testing.T) {
	known := PodStatus{
		Running: true, PID: 5, StartedAt: t1,
		NetworkReady: true, Stopping: true, NetnsPath: "/run/netns/x", IPs: []string{"10.0.0.1"},
	}
	with := func(change func(*PodStatus)) PodStatus {
		s := known
		change(&s)
		return s
	}
	ended := with(func(s *PodStatus) { s.Running, s.PID, s.finishedAt = false, 0, t2 })
	tests := map[string]struct {
		old, seen, want PodStatus
		hostNetwork     bool
	}{
		"the fields of our services stay": {known, PodStatus{Running: true, PID: 5, StartedAt: t1}, known, false},
		"ended":                           {known, PodStatus{StartedAt: t1, finishedAt: t2}, ended, false},
		"old news after the end":          {ended, PodStatus{Running: true, PID: 5, StartedAt: t1}, ended, false},
		"started again: its network is in another namespace": {
			ended, PodStatus{Running: true, PID: 6, StartedAt: t3},
			with(func(s *PodStatus) { s.PID, s.StartedAt, s.NetworkReady = 6, t3, false }),
			false,
		},
		"started again on the engine's bridge: its containers have lost theirs": {
			PodStatus{StartedAt: t1, finishedAt: t2, NetworkReady: true},
			PodStatus{Running: true, PID: 6, StartedAt: t3, IPs: []string{"172.17.0.3"}},
			PodStatus{Running: true, PID: 6, StartedAt: t3, IPs: []string{"172.17.0.3"}},
			false,
		},
		"started again on the host's network": {
			PodStatus{StartedAt: t1, finishedAt: t2, NetworkReady: true},
			PodStatus{Running: true, PID: 6, StartedAt: t3},
			PodStatus{Running: true, PID: 6, StartedAt: t3, NetworkReady: true},
			true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			meta := PodMeta{RuntimeHandler: "h", HostNetwork: tt.hostNetwork}
			got := mergePod(&Pod{ID: "p", Meta: meta, Status: tt.old}, &Pod{ID: "p", Status: tt.seen})
			testutil.Assert(t, reflect.DeepEqual(got.Status, tt.want),
				"the status is %+v, want %+v", got.Status, tt.want)
			testutil.Assert(t, got.Meta.RuntimeHandler == "h", "the merge changed a constant field: %+v", got.Meta)
		})
	}
}

func TestPodState(t *testing.T) {
	for _, running := range []bool{false, true} {
		for _, network := range []bool{false, true} {
			for _, stopping := range []bool{false, true} {
				want := podNotReady
				if running && network && !stopping {
					want = podReady
				}
				testutil.Equal(t, (PodStatus{Running: running, NetworkReady: network, Stopping: stopping}).State(),
					want, "running %v, network %v, stopping %v", running, network, stopping)
			}
		}
	}
}

func TestContainerState(t *testing.T) {
	tests := map[string]struct {
		status ContainerStatus
		want   runtimeapi.ContainerState
	}{
		"nothing happened yet": {ContainerStatus{}, created},
		"running":              {ContainerStatus{Running: true, StartedAt: t0}, running},
		"ended":                {ContainerStatus{StartedAt: t0, FinishedAt: t1}, exited},
		"failed start":         {ContainerStatus{FinishedAt: t1, ExitCode: 127}, exited},
		"dead": {ContainerStatus{Unknown: true, Running: true},
			runtimeapi.ContainerState_CONTAINER_UNKNOWN},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			testutil.Equal(t, tt.status.State(), tt.want, "the state")
		})
	}
}
