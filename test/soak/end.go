package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/test/rig/inventory"
)

const (
	// endPatience bounds the time until a node without pods is empty. A kubelet collects garbage once a minute.
	endPatience = 4 * time.Minute
	// calm is how many times in a row an empty node must look the same.
	calm = 5
)

// ofPods are the kinds of an inventory that have no entries on a node without pods. ofPodsBelow are the kinds that have
// only directories on such a node.
var (
	ofPods = []string{"container", "log file", "pin", "directory of a pod", "note", "pod's directory",
		"container log", "link to a log"}
	ofPodsBelow = []string{"leased address", "CNI cache"}
	// ofEngine are the files among the notes that describe the engine, not a container.
	ofEngine = []string{"runtime.json", "proof.json"}
)

// nothingOfPods says whether an entry of the inventory belongs to no pod, so that a node without pods has it, too.
func nothingOfPods(kind, name string) bool {
	if slices.Contains(ofPodsBelow, kind) {
		info, err := os.Stat(name)
		return err == nil && info.IsDir()
	}
	return !slices.Contains(ofPods, kind) || slices.Contains(ofEngine, filepath.Base(name))
}

// emptyNode runs the workload once, removes it, and returns the node's inventory. Bridges and chains are made with the
// first pods, and stay.
func (s *soaking) emptyNode(ctx context.Context) (inventory.Inventory, error) {
	say("the workload is brought up and removed once, to see what stays")
	work := s.histories.workload
	if err := work.begin(ctx, s.victims.cluster.Plane.Dir); err != nil {
		return nil, err
	}
	if err := s.histories.quiet(ctx); err != nil {
		return nil, err
	}
	if err := work.end(ctx); err != nil {
		return nil, err
	}
	before, same := inventory.Inventory{}, 0
	for end := time.Now().Add(endPatience); ; {
		now, err := s.stock.Take(ctx)
		if err != nil {
			return nil, err
		}
		left := now.Without(nothingOfPods).Differs(inventory.Inventory{})
		if same++; left != "" || now.Differs(before) != "" {
			same = 0
		}
		if same == calm {
			return now, nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("the node does not get empty: %s%s", left, now.Differs(before))
		}
		before = now
		if err := pace.Sleep(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// end removes the workload and reports what is left of it.
func (s *soaking) end(ctx context.Context, empty inventory.Inventory) (left, err error) {
	ctx = context.WithoutCancel(ctx)
	say("the end: the workload is deleted")
	if err := s.histories.workload.end(ctx); err != nil {
		return nil, err
	}
	others := s.leftByEngine()
	text, err := s.stock.Await(ctx, endPatience, empty, others)
	if err != nil {
		return nil, err
	}
	if others != nil {
		if err := s.tellLeftByEngine(ctx, empty, others); err != nil {
			return nil, err
		}
	}
	listed, err := s.listed(ctx)
	if text += listed; text != "" {
		s.result.left = strings.Count(text, "\n  + ") + strings.Count(listed, "\n")
		left = fmt.Errorf("left over:\n%s", text)
	}
	if differences := s.histories.compareAll().Differences; len(differences) > 0 {
		lines := make([]string, len(differences))
		for i, d := range differences {
			lines[i] = "  " + d.String()
		}
		left = errors.Join(left, fmt.Errorf("%d differences:\n%s", len(differences), strings.Join(lines, "\n")))
	}
	return left, err
}

// leftByEngine returns a function that recognizes what an ended engine may leave. It is nil if no engine ended.
func (s *soaking) leftByEngine() func(kind, name string) bool {
	if len(s.histories.engineEnds) == 0 {
		return nil
	}
	return inventory.LeftByContainerd(s.env)
}

// tellLeftByEngine prints the remains that others selects.
func (s *soaking) tellLeftByEngine(
	ctx context.Context, empty inventory.Inventory, others func(kind, name string) bool,
) error {
	now, err := s.stock.Take(ctx)
	if err != nil {
		return err
	}
	theirs := func(kind, name string) bool { return !others(kind, name) }
	if text := now.Without(theirs).Differs(empty.Without(theirs)); text != "" {
		s.result.leftByEngine = strings.Count(text, "\n  ")
		say("left by engine starts that were interrupted:\n%s", text)
	}
	return nil
}

// listed returns the pods and containers that criadapter lists, as crictl prints them.
func (s *soaking) listed(ctx context.Context) (string, error) {
	runtime := s.victims.cluster.Server.Adapter.Runtime
	pods, err := runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{})
	containers, err2 := runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{})
	text := ""
	for _, pod := range pods {
		text += fmt.Sprintf("listed pod: %s %s %s\n", pod.GetId(), pod.GetMetadata().GetName(), pod.GetState())
	}
	for _, c := range containers {
		text += fmt.Sprintf("listed container: %s %s %s\n", c.GetId(), c.GetMetadata().GetName(), c.GetState())
	}
	return text, errors.Join(err, err2)
}
