package cni

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/criadapter/criadapter/internal/testutil"
)

const chain = `{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"fake"},{"type":"ports","capabilities":{"portMappings":true,"dns":false}}]}`

// scripted is a Network over two scripted plugins.
func scripted(t *testing.T) (*sandbox, *Network) {
	s := newSandbox(t)
	s.plugin("fake")
	s.plugin("ports")
	s.configure("net.conflist", chain)
	return s, s.network()
}

// withFake is a sandbox with a network of this CNI version, which has the plugin "fake" alone.
func withFake(t *testing.T, version string) *sandbox {
	s := newSandbox(t)
	s.plugin("fake")
	s.configure("net.conflist", `{"cniVersion":"`+version+`","name":"net","plugins":[{"type":"fake"}]}`)
	return s
}

func TestAddAndDel(t *testing.T) {
	s, n := scripted(t)
	ctx := context.Background()
	pod := testPod("p1")
	pod.PortMappings = []PortMapping{{HostPort: 80, ContainerPort: 8080}}
	pod.DNS = DNS{Servers: []string{"10.0.0.10"}}

	result, err := n.Add(ctx, pod)
	must(t, err)
	testutil.Assert(t, result.Config == "net" && reflect.DeepEqual(result.IPs, []string{"10.9.0.2", "fd09::2"}),
		"got %+v", result)
	raw := decodeResult(t, result)
	testutil.Assert(t, raw.CNIVersion == "1.1.0", "raw %s", result.Raw)
	want := (types.DNS{Nameservers: []string{"10.9.0.1"}, Domain: "example"})
	testutil.Assert(t, reflect.DeepEqual(raw.DNS, want), "DNS %+v", raw.DNS)
	if want := []*types100.Interface{{Name: "host0"},
		{Name: "eth0", Mac: "02:00:00:00:00:01", Sandbox: "/x"}}; !reflect.DeepEqual(raw.Interfaces, want) {
		t.Errorf("interfaces %+v", raw.Interfaces)
	}

	got := s.recorded("fake.ADD.args")
	testutil.Assert(t, strings.Contains(got, "K8S_POD_NAME=web;"), "CNI_ARGS %s", got)
	got = s.recorded("fake.ADD.stdin")
	testutil.Assert(t, !strings.Contains(got, "runtimeConfig"), "a plugin that asks for nothing got %s", got)
	if got := s.recorded("ports.ADD.stdin"); !strings.Contains(got, `"runtimeConfig":{"portMappings":[{"containerPort":8080,"hostPort":80,"protocol":"tcp"}]}`) &&
		!strings.Contains(got, `"runtimeConfig":{"portMappings":[{"hostPort":80,"containerPort":8080,"protocol":"tcp"}]}`) || strings.Contains(got, "10.0.0.10") {
		t.Errorf("a plugin that asks for ports alone got %s", got)
	}
	testutil.Equal(t, s.callLines()[0], "fake.ADD p1 eth0 /proc/self/ns/net", "called with")
	if got := s.cached(); !reflect.DeepEqual(got, []string{"results/net-p1-eth0"}) {
		t.Errorf("kept %v", got)
	}

	_, err = n.Add(ctx, pod)
	testutil.Fails(t, err, errdefs.IsAlreadyExists, "a second Add")
	s.forgetCalls()
	must(t, n.Del(ctx, Pod{ID: "p1"}, ""))
	testutil.Equal(t, s.calls(), "ports.DEL fake.DEL", "Del ran")
	got = s.recorded("ports.DEL.stdin")
	testutil.Assert(t, strings.Contains(got, `"hostPort":80`) && strings.Contains(got, `"prevResult"`),
		"DEL got %s", got)
	s.wantNothingKept()
	must(t, n.Del(ctx, Pod{ID: "p1"}, "net"), n.Del(ctx, pod, ""))
}

func TestFailedAddIsUndone(t *testing.T) {
	tests := []struct {
		name, script string
		check        func(error) bool
	}{
		{"error as the specification says", `echo '{"code":7,"msg":"bad net"}'; exit 1`, func(err error) bool {
			var reported *types.Error
			return errors.As(err, &reported) && reported.Code == 7 && strings.Contains(err.Error(), "bad net")
		}},
		{"try again later", `echo '{"code":11,"msg":"later"}'; exit 1`, errdefs.IsUnavailable},
		{"text on stderr", `echo "no such thing" >&2; exit 3`, func(err error) bool {
			return strings.Contains(err.Error(), "no such thing")
		}},
		{"killed", `kill -9 $$`, func(err error) bool { return strings.Contains(err.Error(), "killed") }},
		{"no JSON", `echo hello; exit 0`, func(err error) bool { return err != nil }},
		{"null", `echo null; exit 0`, func(err error) bool { return strings.Contains(err.Error(), "no address") }},
		{"no address", `echo '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/x"}]}'; exit 0`,
			func(err error) bool { return strings.Contains(err.Error(), "no address") }},
		{"address of another interface",
			`echo '{"cniVersion":"1.0.0","interfaces":[{"name":"eth1"}],"ips":` +
				`[{"address":"10.0.0.1/8","interface":0}]}'; exit 0`,
			func(err error) bool { return strings.Contains(err.Error(), "no address") }},
		{"interface out of range",
			`echo '{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.1/8","interface":-1}]}'; exit 0`,
			func(err error) bool { return strings.Contains(err.Error(), "interface -1 of 0") }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, n := scripted(t)
			s.script("ports.ADD", test.script)
			result, err := n.Add(context.Background(), testPod("p"))
			testutil.Assert(t, err != nil && result == nil && test.check(err), "got %+v, %v", result, err)
			s.wantRan("fake.ADD ports.ADD ports.DEL fake.DEL")
			must(t, os.Remove(filepath.Join(s.journal, "ports.ADD.do")))
			_, err = n.Add(context.Background(), testPod("p"))
			testutil.Check(t, err, "the next Add")
		})
	}
}

func TestUndoThatFailsIsReportedAndRepeated(t *testing.T) {
	s, n := scripted(t)
	ctx := context.Background()
	s.script("ports.ADD", `echo "first fault" >&2; exit 1`)
	s.script("fake.DEL", `echo "second fault" >&2; exit 1`)
	_, err := n.Add(ctx, testPod("p"))
	var notUndone *NotUndoneError
	testutil.Assert(t, errors.As(err, &notUndone) && strings.Contains(notUndone.Add.Error(), "first fault") &&
		strings.Contains(notUndone.Undo.Error(), "second fault"), "got %v", err)
	_, err = n.Add(ctx, testPod("p"))
	testutil.Fails(t, err, errdefs.IsAlreadyExists, "Add after an ADD that was not undone")
	// The configuration is gone. Del still runs the right plugins.
	must(t, os.Remove(filepath.Join(s.conf, "net.conflist")))
	s.expect(n, "")
	err = n.Del(ctx, Pod{ID: "p"}, "")
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "second fault"), "Del: %v", err)
	s.script("fake.DEL", "")
	s.forgetCalls()
	must(t, n.Del(ctx, Pod{ID: "p"}, ""))
	s.wantRan("ports.DEL fake.DEL")
}

// kube-router, for one, copies a configuration without addresses and completes it a moment later.
func TestPodOfAnIncompleteConfigurationIsDeletedByTheCompleteOne(t *testing.T) {
	const incomplete = `if ! grep -q complete "$dir/$me.stdin"; then echo "no ranges" >&2; exit 1; fi`
	for name, one := range map[string]struct {
		now  string
		gone bool
	}{
		"completed": {strings.ReplaceAll(chain, `"fake"`, `"fake","complete":true`), true},
		"other addresses": {
			strings.ReplaceAll(chain, `"fake"`, `"fake","complete":true,"ipam":{"type":"other"}`), false},
		"other plugins": {`{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"fake","complete":true}]}`, false},
		"other name":    {strings.ReplaceAll(chain, `"net"`, `"new","complete":true`), false},
	} {
		t.Run(name, func(t *testing.T) {
			s, n := scripted(t)
			s.script("fake.ADD", incomplete)
			s.script("fake.DEL", incomplete)
			_, err := n.Add(t.Context(), testPod("p"))
			var notUndone *NotUndoneError
			testutil.Assert(t, errors.As(err, &notUndone), "Add: %v", err)
			n.Close()
			s.configure("net.conflist", one.now)
			err = s.network().Del(t.Context(), Pod{ID: "p"}, "")
			testutil.Assert(t, (err == nil) == one.gone && (len(s.cached()) == 0) == one.gone, "Del: %v, left %v", err,
				s.cached())
		})
	}
}

func TestCancelKillsThePluginAndItsChildren(t *testing.T) {
	s, n := scripted(t)
	s.script("fake.ADD", `sleep 300 & echo $! > "$dir/child.new"; mv "$dir/child.new" "$dir/child"; wait`)
	ctx, cancel := context.WithCancel(context.Background())
	failed := testutil.Try(func() (*Result, error) { return n.Add(ctx, testPod("p")) })
	child := filepath.Join(s.journal, "child")
	testutil.Until(t, "plugin runs", func() bool { _, err := os.Stat(child); return err == nil })
	cancel()
	err := testutil.Receive(t, failed, "Add does not return")
	testutil.Assert(t, errors.Is(err, context.Canceled), "got %v", err)
	pid := strings.TrimSpace(s.recorded("child"))
	testutil.Until(t, "end of process "+pid, func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	s.wantRan("fake.ADD ports.DEL fake.DEL")
}

func TestUndoIsBounded(t *testing.T) {
	s := withFake(t, "1.0.0")
	s.options.undoTimeout = 100 * time.Millisecond
	n := s.network()
	s.script("fake.ADD", `exit 1`)
	s.script("fake.DEL", `sleep 300`)
	started := time.Now()
	_, err := n.Add(context.Background(), testPod("p"))
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded) && time.Since(started) <= 20*time.Second,
		"after %v: %v", time.Since(started), err)
}

// A daemon that a plugin leaves behind must not keep the call waiting.
func TestPluginMayLeaveADaemon(t *testing.T) {
	s, n := scripted(t)
	s.script("fake.ADD", `sleep 20 & echo $! > "$dir/child"`)
	started := time.Now()
	_, err := n.Add(context.Background(), testPod("p"))
	testutil.Assert(t, err == nil && time.Since(started) <= 15*time.Second, "after %v: %v", time.Since(started), err)
	var pid int
	_, err = fmt.Sscan(s.recorded("child"), &pid)
	testutil.Must(t, err)
	if daemon, err := os.FindProcess(pid); err == nil {
		_ = daemon.Kill()
	}
}

func TestDelUsesWhatAddUsed(t *testing.T) {
	s, n := scripted(t)
	ctx := context.Background()
	join(t, n, "p")
	s.plugin("other")
	s.configure("net.conflist", `{"cniVersion":"1.0.0","name":"renamed","plugins":[{"type":"other"}]}`)
	s.expect(n, "renamed")
	s.forgetCalls()
	must(t, n.Del(ctx, Pod{ID: "p"}, "renamed"))
	testutil.Equal(t, s.calls(), "ports.DEL fake.DEL", "ran")
}

func TestDelWithoutACache(t *testing.T) {
	tests := []struct {
		name    string
		network string
		want    string
	}{
		{"the network by its name", "second", "ports.DEL"},
		{"the current one when no name is known", "", "fake.DEL"},
		{"a network that is not there any more", "gone", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSandbox(t)
			s.plugin("fake")
			s.plugin("ports")
			s.configure("1.conflist", `{"cniVersion":"1.0.0","name":"first","plugins":[{"type":"fake"}]}`)
			s.configure("2.conflist", `{"cniVersion":"1.0.0","name":"second","plugins":[{"type":"ports","capabilities":{"portMappings":true}}]}`)
			n := s.network()
			pod := testPod("p")
			pod.PortMappings = []PortMapping{{HostPort: 80, ContainerPort: 80}}
			must(t, n.Del(context.Background(), pod, test.network))
			testutil.Equal(t, s.calls(), test.want, "ran")
			testutil.Assert(t, test.network != "second" ||
				strings.Contains(s.recorded("ports.DEL.stdin"), `"hostPort":80`), "the ports were not passed to DEL")
		})
	}
	t.Run("no configuration at all", func(t *testing.T) {
		must(t, newSandbox(t).network().Del(context.Background(), testPod("p"), ""))
	})
}

func TestDamagedCache(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "cut short": `{"kind":"cniCacheV1","contai`,
		"no configuration": `{"kind":"cniCacheV1","containerId":"p","ifName":"eth0","networkName":"net"}`} {
		t.Run(name, func(t *testing.T) {
			s, n := scripted(t)
			ctx := context.Background()
			for _, id := range []string{"p", "other-p"} {
				join(t, n, id)
			}
			testutil.WriteFile(t, filepath.Join(s.cache, "results", "net-p-eth0"), content)
			s.forgetCalls()
			must(t, n.Del(ctx, testPod("p"), "net"))
			testutil.Equal(t, s.calls(), "ports.DEL fake.DEL", "ran")
			got := s.cached()
			testutil.Assert(t, reflect.DeepEqual(got, []string{"results/net-other-p-eth0"}), "left %v", got)
		})
	}
}

// A crash during ADD leaves the pending ADD. A crash while the pending ADD is written leaves a truncated file, and no
// plugin has run.
func TestDelAfterACrash(t *testing.T) {
	s, n := scripted(t)
	ctx := context.Background()
	rt, err := testPod("p").runtimeConf()
	must(t, err)
	must(t, n.pending.begin(n.current.Load().list, rt))
	must(t, os.Remove(filepath.Join(s.conf, "net.conflist")))
	s.expect(n, "")
	must(t, n.Del(ctx, Pod{ID: "p"}, ""))
	s.wantRan("ports.DEL fake.DEL")
	testutil.WriteFile(t, n.pending.path("q"), `{"ContainerID":"q","Netw`)
	must(t, n.Del(ctx, Pod{ID: "q"}, ""))
	s.wantNothingKept()
}

func TestDelTellsPluginsThatTheNamespaceIsGone(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	testutil.WriteFile(t, plain, "")
	for name, path := range map[string]string{"missing": plain + ".missing", "file without a namespace": plain,
		"below a file": plain + "/x"} {
		t.Run(name, func(t *testing.T) {
			s, n := scripted(t)
			join(t, n, "p")
			s.forgetCalls()
			must(t, n.Del(context.Background(), Pod{ID: "p", NetnsPath: path}, ""))
			testutil.Equal(t, strings.Join(s.callLines(), "|"), "ports.DEL p eth0 |fake.DEL p eth0 ", "called with")
		})
	}
}

func TestResultOfAnOldVersion(t *testing.T) {
	s, n := scripted(t)
	ctx := context.Background()
	s.configure("net.conflist", strings.Replace(chain, "1.0.0", "0.3.1", 1))
	testutil.Until(t, "older version", func() bool { return n.Config().CNIVersion == "0.3.1" })
	s.script("ports.ADD", `echo '{"cniVersion":"0.3.1","ips":[{"version":"4","address":"10.9.0.3/24"}]}'; exit 0`)
	s.script("fake.ADD", `echo '{"cniVersion":"0.3.1","ips":[{"version":"4","address":"10.9.0.3/24"}]}'; exit 0`)
	result, err := n.Add(ctx, testPod("q"))
	must(t, err)
	testutil.Assert(t, reflect.DeepEqual(result.IPs, []string{"10.9.0.3"}), "got %+v", result)
}

func TestBadCallsRunNothing(t *testing.T) {
	s, n := scripted(t)
	ctx := context.Background()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	gone := testPod("p")
	gone.NetnsPath = filepath.Join(t.TempDir(), "missing")
	_, withoutID := n.Add(ctx, Pod{})
	_, withoutNetns := n.Add(ctx, gone)
	_, tooLate := n.Add(ended, testPod("p"))
	for name, ok := range map[string]bool{
		"Add without id":         errdefs.IsInvalidArgument(withoutID),
		"Add to no namespace":    errdefs.IsFailedPrecondition(withoutNetns),
		"Add after its deadline": errors.Is(tooLate, context.Canceled),
		"Del without id":         errdefs.IsInvalidArgument(n.Del(ctx, Pod{}, "")),
	} {
		testutil.Assert(t, ok, "%s: wrong error", name)
	}
	s.wantRan("")
}

func TestMissingPlugin(t *testing.T) {
	s, n := scripted(t)
	must(t, os.Remove(filepath.Join(s.bin, "ports")))
	_, err := n.Add(context.Background(), testPod("p"))
	testutil.Assert(t, errdefs.IsUnavailable(err) && strings.Contains(err.Error(), `"ports"`) &&
		strings.Contains(err.Error(), s.bin), "Add: %v", err)
	s.wantRan("")
	s.plugin("ports")
	join(t, n, "p")
	must(t, os.Remove(filepath.Join(s.bin, "ports")))
	if err := n.Del(context.Background(), Pod{ID: "p"}, ""); !errdefs.IsUnavailable(err) || len(s.cached()) != 1 {
		t.Errorf("Del: %v, kept %v", err, s.cached())
	}
	s.plugin("ports")
	must(t, n.Del(context.Background(), Pod{ID: "p"}, ""))
	s.wantNothingKept()
}

// Del of a pod that was never joined does not need the plugins. If the caller names the pod's network, the pod may have
// been joined, and Del needs them.
func TestDelOfAPodThatWasNeverJoined(t *testing.T) {
	s, n := scripted(t)
	must(t, os.Remove(filepath.Join(s.bin, "ports")))
	must(t, n.Del(context.Background(), testPod("p"), ""))
	testutil.Equal(t, s.calls(), "", "ran")
	err := n.Del(context.Background(), testPod("p"), "net")
	testutil.Assert(t, errdefs.IsUnavailable(err), "Del of a pod of the network: %v", err)
}

// The kernel refuses to run a plugin while an installer has it open for writing. Add tries again.
func TestPluginThatIsBeingInstalled(t *testing.T) {
	s, n := scripted(t)
	writer, err := os.OpenFile(filepath.Join(s.bin, "fake"), os.O_WRONLY, 0)
	must(t, err)
	closed := make(chan error, 1)
	time.AfterFunc(busyPause+busyPause/2, func() { closed <- writer.Close() })
	_, err = n.Add(context.Background(), testPod("p"))
	must(t, err, <-closed)

	writer, err = os.OpenFile(filepath.Join(s.bin, "fake"), os.O_WRONLY, 0)
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), busyPause/2)
	defer cancel()
	err = n.Del(ctx, Pod{ID: "p"}, "")
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "got %v", err)
	err = n.Del(context.Background(), Pod{ID: "p"}, "")
	testutil.Assert(t, errors.Is(err, syscall.ETXTBSY), "got %v", err)
	must(t, writer.Close(), n.Del(context.Background(), Pod{ID: "p"}, ""))
}
