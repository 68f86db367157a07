package cluster

import (
	"slices"
	"testing"
)

// kind is a program that makes a machine a node.
type kind string

const (
	kubeletCore kind = "kubelet-core"
	realKubelet kind = "kubelet"
)

// kinds are the columns of the table, in their order.
var kinds = []kind{kubeletCore, realKubelet}

// coreOnly marks steps that do not apply to the real kubelet, which behaves differently.
var coreOnly = []kind{kubeletCore}

// step is a line of the table.
type step struct {
	name string
	// on lists the kinds of node on which it runs. Empty means all.
	on []kind
	// alone says that the step disturbs others. It runs alone, after the parallel steps.
	alone bool
	run   func(*scene)
}

// steps are the lines of the table, in their order. The steps that run alone run in this order, too.
var steps = []step{
	{name: "node registers", run: nodeRegisters},
	{name: "deployment", run: deployment},
	{name: "job", run: job},
	{name: "daemon set", run: daemonSet},
	{name: "readiness gates endpoints", run: readiness},
	{name: "liveness restarts", run: liveness},
	{name: "config maps and secrets change", run: objectsChange},
	{name: "downward API and token", run: downwardAndToken},
	{name: "user namespace of a pod", run: userNamespace},
	{name: "NRI plugin adjusts a pod", run: nriPlugin},
	{name: "kubectl logs", run: logs},
	{name: "kubectl exec and cp", run: execAndCopy},
	{name: "kubectl attach", run: attach},
	{name: "kubectl run with short commands", run: runShortCommands},
	{name: "kubectl debug of an ordinary pod", run: debugPrivileged},
	{name: "kubectl port-forward", run: portForward},
	{name: "figures for kubectl top", run: figures},
	{name: "deletion with grace", run: deletionWithGrace},
	{name: "static pod", run: staticPod},
	{name: "no memory for a pod", run: noMemory},
	{name: "unknown volume in a pod", on: coreOnly, run: unknownVolume},
	{name: "two sources with one pod name", on: coreOnly, run: twoSources},
	{name: "a URL that hangs or answers garbage", on: coreOnly, run: badURL},
	{name: "wrong certificate of the API server", on: coreOnly, run: wrongAuthority},
	{name: "API server away for a minute", alone: true, run: apiServerAway},
	{name: "kubelet killed and back", alone: true, run: kubeletKilled},
	{name: "criadapter killed and back", alone: true, run: criadapterKilled},
	{name: "full disk evicts", alone: true, run: fullDisk},
	{name: "node shuts down with grace", alone: true, run: nodeShutsDown},
	{name: "nothing is left", alone: true, run: nothingIsLeft},
}

// runSteps runs the parallel steps, and then the steps that run alone.
func (w *world) runSteps(t *testing.T, all []step) {
	t.Run("together", func(t *testing.T) {
		for _, step := range all {
			if step.isFor(w.kind) && !step.alone {
				t.Run(step.name, func(t *testing.T) {
					t.Parallel()
					step.play(t, w)
				})
			}
		}
	})
	t.Run("alone", func(t *testing.T) {
		for _, step := range all {
			if step.isFor(w.kind) && step.alone {
				t.Run(step.name, func(t *testing.T) { step.play(t, w) })
			}
		}
	})
}

func (s step) isFor(kind kind) bool { return len(s.on) == 0 || slices.Contains(s.on, kind) }

func (s step) play(t *testing.T, w *world) {
	results.record(t, s.name, w.kind)
	s.run(newScene(t, w, s.name))
}
