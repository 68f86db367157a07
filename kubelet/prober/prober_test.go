package prober

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	cri "k8s.io/cri-client/pkg"
	utilexec "k8s.io/utils/exec"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/grpctest"
)

// execs answers commands, by their first word.
type execs struct {
	mu      sync.Mutex
	answers map[string]error
	calls   map[string]int
	// takes is the time of a command.
	takes time.Duration
	// results are the results of probes.
	results []string
	// errors are the probes that could not be made.
	errors map[string]bool
}

func (e *execs) errored(_ *v1.Pod, container string, probe Type, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.errors[fmt.Sprintf("%s %s %s", container, probe, why)] = true
}

func (e *execs) probed(pod *v1.Pod, container string, probe Type, result Result, took time.Duration) {
	e.results = append(e.results, fmt.Sprintf("%s %s %s %s %v", pod.UID, container, probe, result, took))
}

func (e *execs) ExecSync(
	_ context.Context, _ string, cmd []string, _ time.Duration,
) (stdout, stderr []byte, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls[cmd[0]]++
	time.Sleep(e.takes)
	return []byte("out "), []byte("err"), e.answers[cmd[0]]
}

// count returns the number of runs of a command, once all goroutines wait.
func (e *execs) count(cmd string) int {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[cmd]
}

func (e *execs) set(cmd string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answers[cmd] = err
}

var errFailed = utilexec.CodeExitError{Code: 1, Err: errors.New("exit 1")}

func execProbe(cmd string, edit func(*v1.Probe)) *v1.Probe {
	p := &v1.Probe{TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3}
	p.Exec = &v1.ExecAction{Command: []string{cmd}}
	if edit != nil {
		edit(p)
	}
	return p
}

func loopback() string { return "127.0.0.1" }

// inBubble runs a manager in fake time, with a pod of one running container.
func inBubble(
	t *testing.T, c v1.Container,
	test func(m *Manager, e *execs, results func() string, update func(id string, ending bool)),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &execs{answers: map[string]error{}, calls: map[string]int{}, errors: map[string]bool{}}
		m := New(t.Context(),
			Options{Exec: e, Unhealthy: func(*v1.Pod, string, Type, string) {}, Errored: e.errored,
				Warning: func(*v1.Pod, string, Type, string) {}, Probed: e.probed, HostIP: loopback})
		c.Name = "c"
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{c}}}
		pod.UID = "u"
		var seen *model.PodStatus
		update := func(id string, ending bool) {
			seen = &model.PodStatus{
				Containers: []model.ContainerStatus{
					{ID: id, Name: "c", State: model.StateRunning, StartedAt: time.Now()}}}
			m.Update(pod, seen, ending)
		}
		t.Cleanup(m.Wait)
		go drain(t.Context(), m)
		test(m, e, func() string {
			synctest.Wait()
			r := m.Results(pod, seen)
			id := seen.Containers[0].ID
			return fmt.Sprintf("ready=%v started=%v failed=%v", r.Ready[id], r.Started[id], r.LivenessFailed[id])
		}, update)
	})
}

// drain receives what m sends on Changed, until ctx ends.
func drain(ctx context.Context, m *Manager) {
	for {
		select {
		case <-m.Changed():
		case <-ctx.Done():
			return
		}
	}
}

func TestWithoutProbes(t *testing.T) {
	inBubble(t, v1.Container{}, func(_ *Manager, _ *execs, results func() string, update func(string, bool)) {
		update("1", false)
		testutil.Equal(t, results(), "ready=true started=true failed=false", "running")
	})
}

func TestReadinessThresholds(t *testing.T) {
	c := v1.Container{ReadinessProbe: execProbe("ready", func(p *v1.Probe) {
		p.InitialDelaySeconds, p.SuccessThreshold, p.FailureThreshold = 5, 2, 2
	})}
	inBubble(t, c, func(_ *Manager, e *execs, results func() string, update func(string, bool)) {
		update("1", false)
		time.Sleep(4 * time.Second)
		testutil.Equal(t, results(), "ready=false started=true failed=false", "in the delay")
		testutil.Assert(t, e.count("ready") == 0, "probed in the delay")
		time.Sleep(2 * time.Second)
		testutil.Equal(t, results(), "ready=false started=true failed=false", "one success")
		time.Sleep(10 * time.Second)
		testutil.Equal(t, results(), "ready=true started=true failed=false", "two successes")
		e.set("ready", errFailed)
		time.Sleep(10 * time.Second)
		testutil.Equal(t, results(), "ready=true started=true failed=false", "one failure")
		e.set("ready", nil)
		time.Sleep(10 * time.Second)
		e.set("ready", errFailed)
		time.Sleep(10 * time.Second)
		testutil.Equal(t, results(), "ready=true started=true failed=false", "failures that are not in a row")
		time.Sleep(10 * time.Second)
		testutil.Equal(t, results(), "ready=false started=true failed=false", "two failures")
		update("2", false)
		testutil.Equal(t, results(), "ready=false started=true failed=false", "another container")
	})
}

func TestLivenessFailsOnce(t *testing.T) {
	c := v1.Container{LivenessProbe: execProbe("live", nil)}
	inBubble(t, c, func(_ *Manager, e *execs, results func() string, update func(string, bool)) {
		update("1", false)
		time.Sleep(time.Minute)
		testutil.Equal(t, results(), "ready=true started=true failed=false", "alive")
		e.set("live", errFailed)
		time.Sleep(30 * time.Second)
		testutil.Equal(t, results(), "ready=true started=true failed=true", "after the liveness probe has failed")
		calls := e.count("live")
		time.Sleep(time.Minute)
		testutil.Assert(t, e.count("live") == calls, "a container that is to be killed is still probed")
		update("2", false)
		testutil.Equal(t, results(), "ready=true started=true failed=false", "started again")
	})
}

// TestProbeThatCannotBeMade: without an answer from the runtime, results do not change.
func TestProbeThatCannotBeMade(t *testing.T) {
	c := v1.Container{LivenessProbe: execProbe("live", nil), ReadinessProbe: execProbe("ready", nil)}
	inBubble(t, c, func(_ *Manager, e *execs, results func() string, update func(string, bool)) {
		update("1", false)
		time.Sleep(time.Second)
		for _, cmd := range []string{"live", "ready"} {
			e.set(cmd, errors.New("connection refused"))
		}
		time.Sleep(10 * time.Minute)
		testutil.Equal(t, results(), "ready=true started=true failed=false", "runtime away")
		testutil.Assert(t, len(e.errors) == 2 && e.errors["c Liveness connection refused"], "errors %v", e.errors)
		e.set("live", fmt.Errorf("%w: x", cri.ErrCommandTimedOut))
		time.Sleep(time.Minute)
		testutil.Equal(t, results(), "ready=true started=true failed=true", "too slow")
	})
}

func TestStartupHoldsTheOthers(t *testing.T) {
	c := v1.Container{StartupProbe: execProbe("start", nil), LivenessProbe: execProbe("live", nil),
		ReadinessProbe: execProbe("ready", nil)}
	inBubble(t, c, func(_ *Manager, e *execs, results func() string, update func(string, bool)) {
		e.set("start", errFailed)
		update("1", false)
		time.Sleep(15 * time.Second)
		testutil.Equal(t, results(), "ready=false started=false failed=false", "starting")
		testutil.Assert(t, e.count("live")+e.count("ready") == 0,
			"liveness and readiness probes do not wait for the startup probe")
		e.set("start", nil)
		time.Sleep(10 * time.Second)
		testutil.Equal(t, results(), "ready=true started=true failed=false", "started")
		calls := e.count("start")
		time.Sleep(time.Minute)
		testutil.Assert(t, e.count("start") == calls, "the startup probe goes on after its success")
		e.set("start", errFailed)
		update("2", false)
		time.Sleep(30 * time.Second)
		testutil.Equal(t, results(), "ready=false started=false failed=true", "never started")
	})
}

func TestEndingPodIsProbedForReadinessOnly(t *testing.T) {
	c := v1.Container{LivenessProbe: execProbe("live", nil), ReadinessProbe: execProbe("ready", nil)}
	inBubble(t, c, func(m *Manager, e *execs, _ func() string, update func(string, bool)) {
		update("1", false)
		time.Sleep(time.Minute)
		update("1", true)
		live, ready := e.count("live"), e.count("ready")
		time.Sleep(time.Minute)
		testutil.Assert(t, e.count("live") == live && e.count("ready") != ready,
			"liveness probed %d times, readiness %d times", e.count("live")-live, e.count("ready")-ready)
		m.Forget("u")
		ready = e.count("ready")
		time.Sleep(time.Minute)
		testutil.Assert(t, e.count("ready") == ready, "a forgotten pod is probed")
	})
}

// TestEndingKeepsStarted: the success of a startup probe counts until its container ends, so the container stays ready
// while its pod ends.
func TestEndingKeepsStarted(t *testing.T) {
	c := v1.Container{StartupProbe: execProbe("start", nil), ReadinessProbe: execProbe("ready", nil)}
	inBubble(t, c, func(m *Manager, e *execs, results func() string, update func(string, bool)) {
		update("1", false)
		time.Sleep(time.Minute)
		update("1", true)
		testutil.Equal(t, results(), "ready=true started=true failed=false", "ending")
		e.set("ready", errFailed)
		time.Sleep(time.Minute)
		testutil.Equal(t, results(), "ready=false started=true failed=false", "no longer ready")
		m.Forget("u")
		synctest.Wait()
		testutil.Assert(t, len(m.workers)+len(m.passed) == 0, "left: %v %v", m.workers, m.passed)
		e.set("start", errFailed)
		update("2", false)
		time.Sleep(time.Second)
		calls := e.count("start")
		update("2", true)
		time.Sleep(time.Minute)
		testutil.Assert(t, e.count("start") == calls, "a startup probe goes on while the pod ends")
	})
}

// targetOf is a container with an address of this machine.
func targetOf(t *testing.T, address string, probe v1.ProbeHandler) target {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	testutil.Must(t, err)
	number, err := strconv.Atoi(port)
	testutil.Must(t, err)
	return target{
		container: &v1.Container{Ports: []v1.ContainerPort{{Name: "web", ContainerPort: int32(number)}}},
		probe:     &v1.Probe{ProbeHandler: probe, TimeoutSeconds: 1}, ip: host,
	}
}

func TestHTTP(t *testing.T) {
	handler := http.NewServeMux()
	handler.HandleFunc("/ok", func(http.ResponseWriter, *http.Request) {})
	handler.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no luck", http.StatusTeapot)
	})
	handler.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/bad", http.StatusFound)
	})
	handler.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://example.invalid/", http.StatusFound)
	})
	handler.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	handler.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "example.org" || r.Header.Get("X") != "y" || !strings.HasPrefix(r.UserAgent(), "kube-probe/") ||
			r.URL.RawQuery != "a=b" {
			http.Error(w, fmt.Sprint(r.Host, r.Header, r.URL), http.StatusBadRequest)
		}
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	m := &Manager{}
	for _, test := range []struct {
		server *httptest.Server
		path   string
		scheme v1.URIScheme
		want   string // part of the failure
		warned string // part of the warning
	}{
		{plain, "/ok", v1.URISchemeHTTP, "", ""},
		{plain, "ok", v1.URISchemeHTTP, "", ""},
		{secure, "/ok", v1.URISchemeHTTPS, "", ""},
		{plain, "/bad", v1.URISchemeHTTP, "418: no luck", ""},
		{plain, "/here", v1.URISchemeHTTP, "418", ""},
		{plain, "/away", v1.URISchemeHTTP, "",
			`redirects, Response body: <a href="http://example.invalid/">Found</a>.`},
		{plain, "/slow", v1.URISchemeHTTP, "exceeded", ""},
		{plain, "/headers?a=b", v1.URISchemeHTTP, "", ""},
		{plain, "/ok", v1.URISchemeHTTPS, "HTTP response to HTTPS client", ""},
	} {
		target := targetOf(t, test.server.Listener.Addr().String(), v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{
			Path: test.path, Port: intstr.FromString("web"), Scheme: test.scheme,
			HTTPHeaders: []v1.HTTPHeader{{Name: "host", Value: "example.org"}, {Name: "X", Value: "y"}},
		}})
		got, err := m.probe(t.Context(), target)
		testutil.Assert(t, err == nil && (test.want == "") == (got.failure == "") &&
			strings.Contains(got.failure, test.want), "%s: %q, %v, want %q", test.path, got.failure, err, test.want)
		testutil.Assert(t, (test.warned == "") == (got.warning == "") && strings.Contains(got.warning, test.warned),
			"%s: warning %q, want %q", test.path, got.warning, test.warned)
	}
}

// TestRedirectElsewhereWarns: each redirect to another host is a warning, and does not end the probe.
func TestRedirectElsewhereWarns(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("http://example.invalid/", http.StatusFound))
	defer server.Close()
	var warnings []string
	m := New(t.Context(), Options{
		Unhealthy: func(_ *v1.Pod, _ string, _ Type, why string) { t.Errorf("unhealthy: %s", why) },
		Warning: func(_ *v1.Pod, container string, probe Type, why string) {
			warnings = append(warnings, container+" "+string(probe)+" "+why)
		},
	})
	w := &worker{manager: m, key: key{"id", liveness},
		target: targetOf(t, server.Listener.Addr().String(), v1.ProbeHandler{
			HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromString("web")},
		})}
	w.target.pod, w.target.container.Name, w.target.probe.FailureThreshold = &v1.Pod{}, "c", 1
	for range 2 {
		testutil.Assert(t, !w.probeOnce(t.Context()), "the probe is over")
	}
	if len(warnings) != 2 || !strings.HasPrefix(warnings[0], "c Liveness Probe terminated redirects, Response body: ") {
		t.Errorf("warnings %q", warnings)
	}
}

func TestTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	target := targetOf(t, listener.Addr().String(),
		v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromString("web")}})
	m := &Manager{}
	got, err := m.probe(t.Context(), target)
	testutil.Assert(t, got.failure == "" && err == nil, "open: %q, %v", got.failure, err)
	listener.Close()
	got, err = m.probe(t.Context(), target)
	testutil.Assert(t, strings.Contains(got.failure, "refused") && err == nil, "closed: %q, %v", got.failure, err)
	target.probe.TCPSocket.Port = intstr.FromString("nosuch")
	_, err = m.probe(t.Context(), target)
	testutil.Assert(t, err != nil, "a port name that the container does not have is probed")
}

func TestGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	state := health.NewServer()
	state.SetServingStatus("down", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpctest.Serve(t, listener, func(server *grpc.Server) { grpc_health_v1.RegisterHealthServer(server, state) })
	m := &Manager{}
	for service, want := range map[string]string{"": "", "down": "NOT_SERVING", "nosuch": "unknown service"} {
		target := targetOf(t, listener.Addr().String(), v1.ProbeHandler{})
		target.probe.GRPC = &v1.GRPCAction{Port: target.container.Ports[0].ContainerPort, Service: &service}
		got, err := m.probe(t.Context(), target)
		testutil.Assert(t, err == nil && (want == "") == (got.failure == "") && strings.Contains(got.failure, want),
			"service %q: %q, %v, want %q", service, got.failure, err, want)
	}
}

// TestProbesBeginSpread: the first probes of containers that started before the kubelet are spread over a period.
// Probes of later containers begin at once.
func TestProbesBeginSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &execs{answers: map[string]error{}, calls: map[string]int{}}
		before := time.Now()
		time.Sleep(time.Minute)
		m := New(t.Context(), Options{Exec: e, Probed: e.probed, HostIP: loopback})
		go drain(t.Context(), m)
		const pods = 200
		for i := range pods {
			for cmd, started := range map[string]time.Time{"old": before, "new": time.Now()} {
				pod := &v1.Pod{
					Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", LivenessProbe: execProbe(cmd, nil)}}}}
				pod.UID = types.UID(fmt.Sprint(cmd, i))
				m.Update(pod, &model.PodStatus{Containers: []model.ContainerStatus{
					{ID: string(pod.UID), Name: "c", State: model.StateRunning, StartedAt: started},
				}}, false)
			}
		}
		time.Sleep(time.Millisecond)
		testutil.Equal(t, e.count("new"), pods, "new containers that are probed at once")
		time.Sleep(5 * time.Second)
		n := e.count("old")
		testutil.Assert(t, n >= pods/4 && n <= pods*3/4,
			"%d of %d containers are probed after half of a period", n, pods)
		time.Sleep(5 * time.Second)
		n = e.count("old")
		testutil.Assert(t, n >= pods, "%d of %d containers are probed after a period", n, pods)
	})
}

// TestMain sets a proxy in the environment before any test: net/http reads the proxy once.
func TestMain(m *testing.M) {
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			conn, err := proxy.Accept()
			if err != nil {
				return
			}
			proxied.Add(1)
			conn.Close()
		}
	}()
	os.Setenv("HTTP_PROXY", "http://"+proxy.Addr().String())
	os.Setenv("HTTPS_PROXY", "http://"+proxy.Addr().String())
	os.Exit(m.Run())
}

// proxied counts the connections to the proxy.
var proxied atomic.Int32

// TestNoProxy: probes ignore the proxy of the environment. Go uses no proxy for loopback addresses, so the test probes
// another address.
func TestNoProxy(t *testing.T) {
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	testutil.Must(t, err)
	grpctest.Serve(t, listener, func(server *grpc.Server) {
		grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	})
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	port := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	for name, handler := range map[string]v1.ProbeHandler{
		"grpc": {GRPC: &v1.GRPCAction{Port: int32(port(listener))}},
		"http": {HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(int32(port(web.Listener)))}},
		"tcp":  {TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(int32(port(web.Listener)))}},
	} {
		got, err := (&Manager{}).probe(t.Context(),
			target{ip: "0.0.0.0", probe: &v1.Probe{ProbeHandler: handler, TimeoutSeconds: 5}})
		testutil.Assert(t, err == nil && (got.failure == "" || strings.Contains(got.failure, "404")),
			"%s: %q, %v", name, got.failure, err)
	}
	testutil.Equal(t, proxied.Load(), 0, "connections to the proxy")
}

func TestProbed(t *testing.T) {
	inBubble(t, v1.Container{LivenessProbe: execProbe("live", nil)},
		func(m *Manager, e *execs, _ func() string, update func(string, bool)) {
			update("1", false)
			time.Sleep(15 * time.Second)
			e.set("live", errFailed)
			time.Sleep(10 * time.Second)
			e.set("live", errors.New("the runtime is away"))
			time.Sleep(10 * time.Second)
			e.set("live", nil)
			e.takes = 2 * time.Second
			update("2", false)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			const first = "u c Liveness successful 0s, u c Liveness successful 0s, u c Liveness failed 0s, " +
				"u c Liveness unknown 0s, "
			testutil.Equal(t, strings.Join(e.results, ", "), first+"u c Liveness successful 2s", "results")
			time.Sleep(6 * time.Second) // the next probe has begun
			m.Forget("u")
			time.Sleep(time.Minute)
			synctest.Wait()
			testutil.Equal(t, strings.Join(e.results, ", "), first+"u c Liveness successful 2s", "results after Forget")
		})
}
