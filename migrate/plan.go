package migrate

import (
	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
)

// Plan is what is to be taken over. Print shows it.
type Plan struct {
	// pods are those that are not ours yet, or not wholly.
	pods []*podPlan
	// peer is the process of a cri-dockerd that has to be stopped before, 0 for none.
	peer int
}

// podPlan is one pod of a plan.
type podPlan struct {
	// id is the sandbox's, name is namespace/name.
	id, name string
	// running says that its sandbox runs.
	running bool
	// network is "host", "docker" (the engine's bridge) or the name of the CNI network, "cni" where that is not known.
	network string
	ips     []string
	// containers is how many it has, and logs those whose logs are to be continued.
	containers int
	logs       []*logPlan
	// notes say what is not as it should be.
	notes []string

	// record is what is to be saved.
	record checkpoint.Record
	// pid is a process in the namespace that is to be pinned, 0 for none.
	pid        int
	attachment *cni.Attachment // nil for none
}

// logPlan is the log of a running container that is a link to the engine's json-file.
type logPlan struct {
	// container is its name in the pod, path the log's.
	container, path string
	// kept is how much the engine has of it and history how much of that is converted, in bytes.
	kept, history int64
	// crowded says that history would be more if its file system had more room.
	crowded bool

	id, engine string
}
