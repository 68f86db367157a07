// Package inventory lists what pods may leave behind on a node of the test rig: in the engine, in the kernel, and in
// files. A test compares the inventories before and after its pods.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// Inventory lists the names of things on a node by their kind.
type Inventory map[string][]string

// Node is the subject of an inventory.
type Node struct {
	// Env has the engine, which must be the test's own.
	Env rigenv.Env
	// Server is criadapter, with its directories.
	Server *adapter.Server
	// Dirs are further directories whose files are counted. The keys are the kinds of the files.
	Dirs map[string]string
	// Cgroup is the parent of the pods' cgroups; if it is empty, no cgroups are counted.
	Cgroup string
}

// Take lists everything.
func (n Node) Take(ctx context.Context) (Inventory, error) {
	i := Inventory{}
	errs := []error{
		i.addEngine(ctx, n.Env.DockerHost), i.addMounts(), i.addRules(ctx), i.addProcesses(), i.addInterfaces(),
	}
	dirs := map[string]string{
		"leased address": filepath.Join(n.Server.Dir, "ipam"), "CNI cache": n.Server.CNICacheDir,
		"file of the server": n.Server.RootDir,
		"log file":           filepath.Join(n.Server.Dir, "logs"), "pin": "/run/netns",
		"directory of a pod": "/run/criadapter/pods",
		"note":               filepath.Join(filepath.Dir(n.Env.DockerRoot), "notes"),
	}
	maps.Copy(dirs, n.Dirs)
	for kind, dir := range dirs {
		errs = append(errs, i.addFiles(kind, dir))
	}
	if n.Cgroup != "" {
		errs = append(errs, i.addCgroups(n.Cgroup))
	}
	return i, errors.Join(errs...)
}

// LeftByContainerd says which entries an interrupted start may leave when the engine's containerd is killed or ends
// with its engine. These are a shim, its waiting runtime, and the mount of a root file system. Neither containerd nor
// the engine removes them.
func LeftByContainerd(env rigenv.Env) func(kind, name string) bool {
	return func(kind, name string) bool {
		switch kind {
		case "process":
			return strings.HasPrefix(name, "containerd-shim") || strings.HasPrefix(name, "runc")
		case "mount":
			return strings.HasPrefix(name, env.DockerRoot+"/")
		default:
			return false
		}
	}
}

func (i Inventory) add(kind, name string) { i[kind] = append(i[kind], name) }

// Kinds returns the kinds of both inventories in alphabetical order.
func Kinds(a, b Inventory) []string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return slices.Sorted(maps.Keys(both))
}

// Differs describes the kinds whose entries are not as wanted. Names are compared by their shape, because pods have
// different ids and addresses.
func (i Inventory) Differs(wanted Inventory) string {
	var text strings.Builder
	for _, kind := range Kinds(i, wanted) {
		if names := differences(i[kind], wanted[kind]); names != "" {
			fmt.Fprintf(&text, "%s: %d, should be %d:%s\n", kind, len(i[kind]), len(wanted[kind]), names)
		}
	}
	return text.String()
}

// differences lists the names of a shape that one of two lists has more often. It leaves out names in both lists.
func differences(a, b []string) string {
	added, missing := minus(a, b), minus(b, a)
	surplus := make(map[string]int)
	for _, name := range added {
		surplus[shape(name)]++
	}
	for _, name := range missing {
		surplus[shape(name)]--
	}
	var text strings.Builder
	list := func(sign string, names []string) {
		for _, name := range names {
			if surplus[shape(name)] != 0 {
				fmt.Fprintf(&text, "\n  %s %s", sign, name)
			}
		}
	}
	list("+", added)
	list("-", missing)
	return text.String()
}

// minus returns a without the entries of b. Each entry of b takes away one equal entry.
func minus(a, b []string) []string {
	count := make(map[string]int)
	for _, name := range b {
		count[name]++
	}
	return slices.DeleteFunc(slices.Clone(a), func(name string) bool {
		count[name]--
		return count[name] >= 0
	})
}

// varying matches the parts of names that differ between pods: ids, addresses, ports and attempts.
var varying = regexp.MustCompile(`[0-9a-f]{8,}|[0-9]+`)

// shape is a name without its varying parts.
func shape(name string) string { return varying.ReplaceAllString(name, "*") }

// Without leaves out the entries for which others returns true. With nil it keeps all entries.
func (i Inventory) Without(others func(kind, name string) bool) Inventory {
	if others == nil {
		return i
	}
	rest := Inventory{}
	for kind, names := range i {
		rest[kind] = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return others(kind, name) })
	}
	return rest
}

// Await waits until the inventory is as wanted, and returns what still differs after patience. It leaves out the
// entries for which others returns true. Engines end processes and remove mounts a moment after their answer.
func (n Node) Await(ctx context.Context, patience time.Duration, wanted Inventory,
	others func(kind, name string) bool) (string, error) {
	ended := time.NewTimer(patience)
	defer ended.Stop()
	for {
		have, err := n.Take(ctx)
		if err != nil {
			return "", err
		}
		differs := have.Without(others).Differs(wanted.Without(others))
		if differs == "" {
			return "", nil
		}
		select {
		case <-ctx.Done():
			return differs, ctx.Err()
		case <-ended.C:
			return differs, nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}
