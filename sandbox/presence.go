package sandbox

import "github.com/criadapter/criadapter/checkpoint"

// presence says where a pod is found. A healthy pod is found everywhere; after a crash, a clean-up or a reboot any part
// may be missing.
type presence struct {
	// shown says that clients see the pod: the engine has its container, or there is a record or an owner.
	shown bool
	// phase is the phase in the pod's record, empty without a record. unreadable says that there is a record which
	// cannot be read.
	phase      checkpoint.Phase
	unreadable bool
	// joined says that the network holds something for the pod. owned says that it has a directory of this criadapter,
	// and is not just being set up.
	joined, owned bool
}

// action is what this program does with a pod by itself. Anything else is left to the kubelet, which removes pods that
// it does not want.
type action int

const (
	actLeave action = iota
	// actFinish stops a pod whose set-up or stop was cut short.
	actFinish
	// actRelease gives back what is held for a pod that no client sees or will ever ask for.
	actRelease
)

// decide says what to do with a pod.
func (p presence) decide() action {
	switch {
	case p.unreadable:
		return actLeave // only its record says what the pod holds
	case p.shown && p.phase == checkpoint.PhaseIntent:
		return actFinish
	case !p.shown && p.phase == "" && (p.joined || p.owned):
		return actRelease // a pod that is not shown but has a record is still being set up
	}
	return actLeave
}
