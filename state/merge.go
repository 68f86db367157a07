package state

import "cmp"

// mergePod merges an inspect of a sandbox into the known pod. The pod's pinned network namespace, addresses, limits and
// Stopping are set by our services and stay. A pod without a pinned namespace has the addresses that the engine's
// bridge gave it at the last start.
func mergePod(old, now *Pod) *Pod {
	if old == nil {
		return now
	}
	merged := *now
	if old.Status.lost { // now has more fields than a lost pod's entry
		merged.Status.Stopping = merged.Status.Stopping || old.Status.Stopping
		return &merged
	}
	merged.Meta = old.Meta
	merged.Meta.ImageID = cmp.Or(old.Meta.ImageID, now.Meta.ImageID)
	merged.Status.NetworkReady = old.Status.NetworkReady
	merged.Status.Stopping = old.Status.Stopping
	merged.Status.NetnsPath = old.Status.NetnsPath
	merged.Status.Overhead, merged.Status.Resources = old.Status.Overhead, old.Status.Resources
	if old.Status.NetnsPath != "" || !now.Status.Running {
		merged.Status.IPs = old.Status.IPs
	}
	if !old.Status.Running && now.Status.Running && old.Status.StartedAt.Equal(now.Status.StartedAt) {
		merged.Status = old.Status
	}
	if restarted(old.Status, now.Status) && !old.Meta.HostNetwork {
		merged.Status.NetworkReady = false
	}
	return &merged
}

// restarted reports whether a sandbox was started a second time. The sandbox then has a new network namespace, but the
// pod's addresses are in the pinned namespace. On the engine's bridge, the containers stay in the old namespace without
// a network.
func restarted(old, now PodStatus) bool {
	if old.StartedAt.IsZero() { // the pod was shown by its record alone
		return now.RanBefore()
	}
	return now.Running && !old.StartedAt.Equal(now.StartedAt) && old.PID != now.PID
}

// newExit reports whether a known container has ended since its last inspect. At the last inspect it may have been
// created, running, or ended after an earlier run.
func newExit(old, now *Container) bool {
	if old == nil || !now.ended() {
		return false
	}
	return old.Status.Running || !old.Status.FinishedAt.Equal(now.Status.FinishedAt)
}

// mergeContainer merges an inspect of a container into the known one.
func mergeContainer(old, now *Container) *Container {
	if old == nil {
		return now
	}
	merged := *now
	merged.Meta = old.Meta
	merged.Status.Resources = old.Status.Resources
	if merged.Status.Identity == nil && sameRun(old.Status, now.Status) {
		merged.Status.Identity = old.Status.Identity
	}
	if old.Status.oomReported && sameRun(old.Status, now.Status) {
		merged.Status = merged.Status.WithOOM()
	}
	if old.ended() && now.Status.Running && old.Status.StartedAt.Equal(now.Status.StartedAt) {
		merged.Status = old.Status
	}
	if old.ended() && !now.Status.Running && now.Status.FinishedAt.IsZero() {
		// The start failed: the engine reports the container as created.
		merged.Status = old.Status
	}
	return &merged
}

// sameRun reports whether two inspects of a container show the same run.
func sameRun(old, now ContainerStatus) bool {
	return old.StartedAt.IsZero() || old.StartedAt.Equal(now.StartedAt)
}

// killedExitCode is the exit code after SIGKILL.
const killedExitCode = 128 + 9

// OOMReported reports whether an out-of-memory kill in the present or last run was reported.
func (s ContainerStatus) OOMReported() bool { return s.oomReported }

// WithOOM merges a report of an out-of-memory kill into a status. The kernel may have killed another process than the
// container's first one, so the exit code decides about OOMKilled.
func (s ContainerStatus) WithOOM() ContainerStatus {
	s.oomReported = true
	if !s.Running && s.ExitCode == killedExitCode {
		s.OOMKilled = true
	}
	return s
}
