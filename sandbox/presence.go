package sandbox

import "github.com/criadapter/criadapter/checkpoint"

// presence says in which places look found a pod: cache, record, network and directory. A healthy pod is in all of
// them, but only a pod of a CNI network has an attachment. After a crash, a clean-up or a reboot, any of them may lack
// the pod.
type presence struct {
	// shown says that the cache has the pod, so clients see it.
	shown bool
	// phase is the phase in the pod's record, empty without a record. unreadable says that there is a record which
	// cannot be read.
	phase      checkpoint.Phase
	unreadable bool
	// joined says that the CNI cache has an attachment of the pod. owned says that the pod has a directory of this
	// criadapter, and is not being set up.
	joined, owned bool
}

// action is the repair of a pod that criadapter does without a request. All other pods are left to the kubelet, which
// removes unwanted pods.
type action int

const (
	actLeave action = iota
	// actFinish stops a pod whose set-up or stop was cut short.
	actFinish
	// actRelease releases the addresses, namespaces and files of a pod that no client sees, so no client will remove
	// it.
	actRelease
)

// decide returns the action for a pod.
func (p presence) decide() action {
	switch {
	case p.unreadable:
		return actLeave // only the record lists the resources of the pod
	case p.shown && p.phase == checkpoint.PhaseIntent:
		return actFinish
	case !p.shown && p.phase == "" && (p.joined || p.owned):
		return actRelease // a pod that is not shown but has a record is still being set up
	}
	return actLeave
}
