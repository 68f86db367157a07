package state

// mergePod takes the engine's view of a pod into what is known. What the pod's
// maker decided (namespace, addresses, stopping) is ours and stays.
func mergePod(old, seen *Pod) *Pod {
	if old == nil {
		return seen
	}
	merged := *seen
	merged.Meta = old.Meta
	merged.Status.NetworkReady = old.Status.NetworkReady
	merged.Status.Stopping = old.Status.Stopping
	merged.Status.NetnsPath = old.Status.NetnsPath
	merged.Status.IPs = old.Status.IPs
	if !old.Status.Running && seen.Status.Running && old.Status.StartedAt.Equal(seen.Status.StartedAt) {
		merged.Status = old.Status
	}
	if restarted(old.Status, seen.Status) && old.Status.NetnsPath != "" {
		merged.Status.NetworkReady = false
	}
	return &merged
}

// restarted reports whether somebody started a sandbox a second time. It has a
// new network namespace then, while the pod's addresses are in the pinned one.
func restarted(old, seen PodStatus) bool {
	return seen.Running && !old.StartedAt.IsZero() && !old.StartedAt.Equal(seen.StartedAt) && old.PID != seen.PID
}

// newExit reports whether a container has ended since it was last seen: it may
// have been seen running, or not even started, or at the end of an earlier run.
// Of one that was never seen before nobody waits for the end.
func newExit(old, seen *Container) bool {
	if old == nil || seen.Status.Running || seen.Status.FinishedAt.IsZero() {
		return false
	}
	return old.Status.Running || !old.Status.FinishedAt.Equal(seen.Status.FinishedAt)
}

// mergeContainer takes the engine's view of a container into what is known.
func mergeContainer(old, seen *Container) *Container {
	if old == nil {
		return seen
	}
	merged := *seen
	merged.Meta = old.Meta
	merged.Status.Resources = old.Status.Resources
	if merged.Status.Identity == nil && sameRun(old.Status, seen.Status) {
		merged.Status.Identity = old.Status.Identity
	}
	if old.Status.OOMReported && sameRun(old.Status, seen.Status) {
		merged.Status = withOOM(merged.Status)
	}
	exited := !old.Status.Running && !old.Status.FinishedAt.IsZero()
	if exited && seen.Status.Running && old.Status.StartedAt.Equal(seen.Status.StartedAt) {
		merged.Status = old.Status
	}
	if exited && !seen.Status.Running && seen.Status.FinishedAt.IsZero() {
		// A failed start: the engine keeps a created container, we know its end.
		merged.Status = old.Status
	}
	return &merged
}

// sameRun reports whether two looks at a container are at one run of it.
func sameRun(old, seen ContainerStatus) bool {
	return old.StartedAt.IsZero() || old.StartedAt.Equal(seen.StartedAt)
}

// killedExitCode is the exit code of a process that SIGKILL has ended.
const killedExitCode = 128 + 9

// withOOM takes the engine's report of an out-of-memory kill into a status. The
// kill may have hit another process than the container's own, which then goes
// on or ends in its own way.
func withOOM(s ContainerStatus) ContainerStatus {
	s.OOMReported = true
	if !s.Running && s.ExitCode == killedExitCode {
		s.OOMKilled = true
	}
	return s
}
