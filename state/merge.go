package state

// mergePod takes the engine's view of a pod into what is known. What the pod's maker decided (namespace, its addresses,
// its limits, stopping) is ours and stays. Without a pinned namespace the addresses are those of the engine's bridge, as of the
// last start.
func mergePod(old, now *Pod) *Pod {
	if old == nil {
		return now
	}
	merged := *now
	merged.Meta = old.Meta
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
	if restarted(old.Status, now.Status) && old.Status.NetnsPath != "" {
		merged.Status.NetworkReady = false
	}
	return &merged
}

// restarted reports whether somebody started a sandbox a second time. It has a
// new network namespace then, while the pod's addresses are in the pinned one.
func restarted(old, now PodStatus) bool {
	return now.Running && !old.StartedAt.IsZero() && !old.StartedAt.Equal(now.StartedAt) && old.PID != now.PID
}

// newExit reports whether a container has ended since it was last observed: it may have been running then, or not even
// started, or at the end of an earlier run. Nobody waits for the end of one that was never observed before.
func newExit(old, now *Container) bool {
	if old == nil || now.Status.Running || now.Status.FinishedAt.IsZero() {
		return false
	}
	return old.Status.Running || !old.Status.FinishedAt.Equal(now.Status.FinishedAt)
}

// mergeContainer takes the engine's view of a container into what is known.
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
		merged.Status = withOOM(merged.Status)
	}
	exited := !old.Status.Running && !old.Status.FinishedAt.IsZero()
	if exited && now.Status.Running && old.Status.StartedAt.Equal(now.Status.StartedAt) {
		merged.Status = old.Status
	}
	if exited && !now.Status.Running && now.Status.FinishedAt.IsZero() {
		// A failed start: the engine keeps a created container, we know its end.
		merged.Status = old.Status
	}
	return &merged
}

// sameRun reports whether two looks at a container are at one run of it.
func sameRun(old, now ContainerStatus) bool {
	return old.StartedAt.IsZero() || old.StartedAt.Equal(now.StartedAt)
}

// killedExitCode is the exit code of a process that SIGKILL has ended.
const killedExitCode = 128 + 9

// withOOM takes the engine's report of an out-of-memory kill into a status. The kill may have hit another process than
// the container's own, which then goes on or ends in its own way.
func withOOM(s ContainerStatus) ContainerStatus {
	s.oomReported = true
	if !s.Running && s.ExitCode == killedExitCode {
		s.OOMKilled = true
	}
	return s
}
