package sandbox

import "github.com/criadapter/criadapter/checkpoint"

// remains are what is found of a pod after a start, and now and then later, wherever it is kept: all of a healthy pod,
// and any part of it after a crash, a clean-up or a reboot.
type remains struct {
	// shown says that clients see the pod: the engine has its container, or there is a record or an owner. running says
	// that its namespaces are alive.
	shown, running bool
	// phase is that of its record, empty without one, and unread that there is a record which cannot be read.
	phase  checkpoint.Phase
	unread bool
	// joined says that the network holds something for it, and owned that it has a directory of this criadapter, and is
	// not just being set up.
	joined, owned bool
}

// action is what is to be done with a pod by ourselves. All else is the kubelet's: it removes what it sees and does not
// want.
type action int

const (
	leave action = iota
	// repair gives a healthy pod back what it has lost.
	repair
	// finish stops a pod whose set-up or stop was cut short.
	finish
	// release gives back what is held for a pod that nobody sees, and nobody will ever ask for.
	release
)

// decide says what to do with a pod. It depends on nothing but what was found.
func (r remains) decide() action {
	switch {
	case r.unread:
		return leave // its file tells more than we know
	case r.shown && r.phase == checkpoint.PhaseIntent:
		return finish
	case r.shown && r.phase == checkpoint.PhaseReady && r.running:
		return repair
	case !r.shown && r.phase == "" && (r.joined || r.owned):
		return release // one with a record is being set up
	}
	return leave
}
