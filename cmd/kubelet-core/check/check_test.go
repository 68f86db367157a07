package check

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/checklist"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet"
	"github.com/criadapter/criadapter/kubelet/cgroup"
)

// good are the facts of a node without a problem.
func good() facts {
	return facts{
		opts: kubelet.Options{NodeName: "node", Owner: "node", RootDir: "/var/lib/kubelet-core/node",
			RuntimeEndpoint: "unix:///run/cri.sock", Manifests: "/etc/kubelet-core/manifests"},
		root: true, runtime: "docker 29.8.0", driver: "systemd", pods: 2,
		conditions: []*runtimeapi.RuntimeCondition{
			{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: true}},
		host:  cgroup.Host{Unified: true},
		disks: []checklist.Disk{{Path: "/var/lib/kubelet-core/node", Free: 50e9, Total: 100e9}},
	}
}

// bad returns the warnings and failures of a report as text.
func bad(report checklist.Report) string {
	var all []string
	for _, f := range report.Findings {
		if f.Status != checklist.OK {
			all = append(all, fmt.Sprintf("%s %s: %s", f.Status, f.Check, f.Text))
		}
	}
	return strings.Join(all, "\n")
}

func TestJudge(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		change func(*facts)
		want   string
	}{
		"good":      {func(*facts) {}, ""},
		"settings":  {func(f *facts) { f.optsErr = broken }, "fail settings: broken"},
		"rights":    {func(f *facts) { f.root = false }, "fail rights: not root: cgroups and volumes need it"},
		"a kubelet": {func(f *facts) { f.kubeletErr = broken }, "fail kubelet: broken"},
		"no runtime": {func(f *facts) { f.runtimeErr = errors.New("first\nlast") },
			"fail CRI socket: unix:///run/cri.sock: last"},
		"no network": {func(f *facts) {
			f.conditions[1] = &runtimeapi.RuntimeCondition{Type: "NetworkReady", Reason: "NoCNI", Message: "no file"}
		}, "fail NetworkReady: no: NoCNI no file"},
		"no driver": {func(f *facts) { f.driver = "" },
			"warn cgroup driver: the runtime reports none: pods have no cgroup of their own"},
		"a given driver": {func(f *facts) { f.driver, f.opts.CgroupDriver = "", cgroup.Systemd }, ""},
		"no manifests": {func(f *facts) { f.pods = 0 },
			"warn manifests: /etc/kubelet-core/manifests has none"},
		"a broken manifest": {func(f *facts) { f.problems = map[string]error{"/m/a.yaml": errors.New("one\ntwo")} },
			"fail manifest: /m/a.yaml: one; two"},
		"no resolv.conf": {func(f *facts) { f.resolvErr = broken }, "fail resolv.conf: broken"},
		"a busy port":    {func(f *facts) { f.listenErr = broken }, "warn read-only endpoint: broken"},
		"a full disk": {func(f *facts) { f.disks[0].Free = 5e9 },
			"warn disk: /var/lib/kubelet-core/node: 5.0 GB of 100.0 GB free (5 %)"},
		"a broken disk": {func(f *facts) { f.disks[0].Err = broken },
			"fail disk: /var/lib/kubelet-core/node: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			f := good()
			c.change(&f)
			report := judge(f)
			testutil.Equal(t, bad(report), c.want, "findings")
			for _, found := range report.Findings {
				testutil.Assert(t, found.Status == checklist.OK || found.Do != "", "%s has no remedy", found.Check)
			}
		})
	}
}

// TestKubelet checks that the report says whether the check looked for a kubelet.
func TestKubelet(t *testing.T) {
	for beside, want := range map[bool]string{
		false: "no kubelet runs here", true: "not looked for, because of --beside-kubelet",
	} {
		f := good()
		f.opts.BesideKubelet = beside
		said := slices.ContainsFunc(judge(f).Findings, func(found checklist.Finding) bool { return found.Text == want })
		testutil.Assert(t, said, "beside a kubelet %t: the report lacks %q", beside, want)
	}
}

// TestRunLooksAtThisNode checks a node without a runtime, with a busy port and a broken manifest.
func TestRunLooksAtThisNode(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	defer listener.Close()
	dir := t.TempDir()
	testutil.WriteFile(t, filepath.Join(dir, "web.yaml"),
		"apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {colour: red}")
	report := Run(t.Context(), kubelet.Options{
		RuntimeEndpoint: "unix://" + dir + "/none.sock", Manifests: dir, RootDir: dir + "/root",
		PodLogsDir:  dir + "/logs",
		ReadAddress: listener.Addr().String(), BesideKubelet: true,
	})
	for _, want := range []string{"fail CRI socket", "fail manifest: " + dir + "/web.yaml",
		"warn read-only endpoint: " + listener.Addr().String() + " is in use"} {
		testutil.Assert(t, strings.Contains(bad(report), want), "the report lacks %q:\n%s", want, bad(report))
	}
	disks := slices.DeleteFunc(report.Findings, func(f checklist.Finding) bool { return f.Check != "disk" })
	testutil.Equal(t, len(disks), 2, "findings about disks: %+v", disks)
}
