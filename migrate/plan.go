package migrate

import (
	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
)

// Plan is the plan of a migration. Print shows it.
type Plan struct {
	// pods are the pods that are not completely migrated yet.
	pods []*podPlan
	// left are pods that cannot be taken over.
	left []leftOut
	// peer is a shim that must be stopped first.
	peer shim
}

// leftOut is a pod that cannot be taken over, by its sandbox's id, with the reason.
type leftOut struct {
	id  string
	err error
}

// podPlan is one pod of a plan.
type podPlan struct {
	// id is the sandbox's id, name is namespace/name.
	id, name string
	// running says that its sandbox runs.
	running bool
	// network is "host", "docker" (the engine's bridge) or the name of the CNI network, "cni" if unknown.
	network string
	ips     []string
	// containers is the number of its containers. logs are the logs to continue.
	containers int
	logs       []*logPlan
	// notes are remarks for the operator about problems of the pod.
	notes []string

	// record is the record to save.
	record checkpoint.Record
	// pid is a process in the namespace to pin, 0 for none.
	pid        int
	attachment *cni.Attachment // nil for none
}

// logPlan is the log of a running container that is a link to the engine's json-file.
type logPlan struct {
	// container is the container's name in the pod. path is the path of its log.
	container, path string
	// kept is the size of the engine's log, history the size of its part to convert, in bytes.
	kept, history int64
	// crowded says that too little free space reduced history.
	crowded bool

	id, engine string
}

// root is the pod's log directory.
func (l *logPlan) root() string { return logDirectory(l.container, l.path) }
