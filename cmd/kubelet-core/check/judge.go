package check

import (
	"maps"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/internal/checklist"
)

// judge turns the facts into a report. The report depends on the facts alone.
func judge(f facts) checklist.Report {
	var report checklist.Report
	judgeSettings(report.Group("settings"), f)
	judgeRuntime(report.Group("runtime"), f)
	judgeManifests(report.Group("pods"), f)
	judgeNode(report.Group("node"), f)
	return report
}

func judgeSettings(g *checklist.Group, f facts) {
	if f.optsErr != nil {
		g.Fail("settings", "fix the flag or the field (kubelet-core config print)", "%v", f.optsErr)
	} else {
		g.OK("settings", "node %s, owner %s, state in %s", f.opts.NodeName, f.opts.Owner, f.opts.RootDir)
	}
	if f.root {
		g.OK("rights", "root")
	} else {
		g.Fail("rights", "run kubelet-core as root", "not root: cgroups and volumes need it")
	}
	switch {
	case f.opts.BesideKubelet:
		g.OK("kubelet", "not looked for, because of --beside-kubelet")
	case f.kubeletErr == nil:
		g.OK("kubelet", "no kubelet runs here")
	default:
		g.Fail("kubelet", "stop it, or use --beside-kubelet for a kubelet on another runtime", "%v", f.kubeletErr)
	}
}

func judgeRuntime(g *checklist.Group, f facts) {
	if f.runtimeErr != nil {
		g.Fail("CRI socket", "start the runtime and its engine (criadapter check, crictl info), or name its "+
			"socket with --container-runtime-endpoint", "%s: %s", f.opts.RuntimeEndpoint, lastLine(f.runtimeErr))
		return
	}
	g.OK("CRI socket", "%s answers on %s", f.runtime, f.opts.RuntimeEndpoint)
	for _, condition := range f.conditions {
		if condition.GetStatus() {
			g.OK(condition.GetType(), "yes")
			continue
		}
		g.Fail(condition.GetType(), "look at the runtime (criadapter check, crictl info)", "no: %s %s",
			condition.GetReason(), condition.GetMessage())
	}
	switch driver := f.driver; {
	case driver != "":
		g.OK("cgroup driver", "%s, as the runtime says", driver)
	case f.opts.CgroupDriver != "":
		g.OK("cgroup driver", "%s, by --cgroup-driver", f.opts.CgroupDriver)
	default:
		g.Warn("cgroup driver", "give the runtime's driver with --cgroup-driver",
			"the runtime reports none: pods have no cgroup of their own")
	}
}

// lastLine returns the last line of an error's text, the reason of the last attempt.
func lastLine(err error) string {
	lines := strings.Split(err.Error(), "\n")
	return lines[len(lines)-1]
}

func judgeManifests(g *checklist.Group, f facts) {
	switch {
	case f.opts.Manifests == "":
	case f.manifestErr != nil:
		g.Fail("manifests", "fix the directory, or name another with --manifests", "%v", f.manifestErr)
	case f.pods == 0 && len(f.problems) == 0:
		g.Warn("manifests", "put the manifest of a pod there", "%s has none", f.opts.Manifests)
	default:
		g.OK("manifests", "%d pods in %s", f.pods, f.opts.Manifests)
	}
	for _, path := range slices.Sorted(maps.Keys(f.problems)) {
		g.Fail("manifest", "fix the field, or remove the file", "%s: %s", path,
			strings.ReplaceAll(f.problems[path].Error(), "\n", "; "))
	}
}

// lowSpace is the free share of a disk below which pods are evicted by default, in percent.
const lowSpace = 10

func judgeNode(g *checklist.Group, f facts) {
	switch {
	case f.hostErr != nil:
		g.Fail("cgroups", "mount the cgroup filesystem and /proc", "%v", f.hostErr)
	case f.host.Unified:
		g.OK("cgroups", "version 2")
	default:
		g.OK("cgroups", "version 1")
	}
	if f.resolvErr != nil {
		g.Fail("resolv.conf", "name an existing file with --resolv-conf", "%v", f.resolvErr)
	}
	if f.listenErr != nil {
		g.Warn("read-only endpoint", "ignore it if it is this kubelet core, or use --read-address", "%v", f.listenErr)
	}
	for _, d := range f.disks {
		judgeDisk(g, d)
	}
}

func judgeDisk(g *checklist.Group, d checklist.Disk) {
	switch {
	case d.Err != nil:
		g.Fail("disk", "make the directory usable", "%s: %v", d.Path, d.Err)
	case d.FreeSpace() < lowSpace:
		g.Warn("disk", "make room, or pods are evicted (--eviction-hard)", "%s", d.Space())
	default:
		g.OK("disk", "%s", d.Space())
	}
}
