package kuberuntime

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

func TestPostStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		pod := pulled(modeltest.Pod(v1.RestartPolicyAlways, "app:a"))
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
			PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"fail"}}}}
		result, err := b.SyncPod(t.Context(), pod, b.status(pod), Probes{})
		testutil.Assert(t, err != nil && result.Waiting["a"].Reason == model.ReasonPostStartHookError &&
			b.running(pod) == "", "%v, %+v, running %q", err, result.Waiting, b.running(pod))
		testutil.Equal(t, b.message("Killing"), "FailedPostStartHook", "event")
	})
}

// TestCancelledSync: a sync that the pod's end cut off records no failures.
func TestCancelledSync(t *testing.T) {
	newPod := func(command string) *v1.Pod {
		pod := pulled(modeltest.Pod(v1.RestartPolicyAlways, "app:a"))
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
			PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{command}}}}
		return pod
	}
	for _, call := range []string{"RunPodSandbox", "CreateContainer", "StartContainer"} {
		b := newBench(t)
		b.fake.InjectError(call, context.Canceled)
		ctx, cancel := context.WithCancel(t.Context())
		pod := newPod("")
		status := b.status(pod)
		cancel()
		_, err := b.SyncPod(ctx, pod, status, Probes{})
		testutil.Assert(t, err != nil && b.message("Failed")+b.message("FailedCreatePodSandBox") == "",
			"%s: %v, %+v", call, err, b.events.List())
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		pod := newPod("forever")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.SyncPod(ctx, pod, b.status(pod), Probes{})
		testutil.Assert(t, err != nil && b.message("FailedPostStartHook")+b.message("Killing") == "" &&
			b.running(pod) == "a", "%v, %+v, running %q", err, b.events.List(), b.running(pod))
	})
}

// TestPostStartFailsThenHTTPHook: after a failed postStart hook, an HTTP preStop hook asks the pod's address.
func TestPostStartFailsThenHTTPHook(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	testutil.Must(t, err)
	b := newBench(t)
	b.fake.ip = host
	pod := pulled(modeltest.Pod(v1.RestartPolicyAlways, "app:a"))
	pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
		PostStart: &v1.LifecycleHandler{},
		PreStop:   &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.Parse(port)}},
	}
	result, err := b.SyncPod(t.Context(), pod, b.status(pod), Probes{})
	testutil.Assert(t, err != nil && result.Waiting["a"].Reason == model.ReasonPostStartHookError && asked.Load() == 1,
		"%v, %+v, the preStop hook asked %d times", err, result.Waiting, asked.Load())
}

// TestMain sets a proxy in the environment for all tests, because net/http reads it only once. The proxy answers every
// request with 502.
func TestMain(m *testing.M) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		proxied.Add(1)
		w.WriteHeader(http.StatusBadGateway)
	}))
	os.Setenv("HTTP_PROXY", proxy.URL)
	os.Setenv("HTTPS_PROXY", proxy.URL)
	os.Exit(m.Run())
}

// TestHTTPHook: any answer is a success, as in the kubelet.
func TestHTTPHook(t *testing.T) {
	var asked string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = strings.TrimSpace(r.URL.Path + " " + r.Header.Get("X") + r.Header.Get("Authorization"))
		if !strings.HasPrefix(r.Host, "127.0.0.1") && !strings.HasPrefix(r.Host, "0.0.0.0") {
			asked += " of " + r.Host
		}
		if r.URL.Path == "/bad" {
			http.Error(w, "no luck", http.StatusInternalServerError)
		}
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	closed := httptest.NewServer(handler)
	closed.Close()
	header := func(name, value string) []v1.HTTPHeader { return []v1.HTTPHeader{{Name: name, Value: value}} }
	for _, c := range []struct {
		name   string
		server *httptest.Server
		get    v1.HTTPGetAction
		want   string // empty for an error
	}{
		{"with a header", plain, v1.HTTPGetAction{Path: "/bye", HTTPHeaders: header("X", "y")}, "/bye y"},
		{"any status", plain, v1.HTTPGetAction{Path: "/bad"}, "/bad"},
		{"path without slash", plain, v1.HTTPGetAction{Path: "bye"}, "/bye"},
		{"no path", plain, v1.HTTPGetAction{}, "/"},
		{"a host header", plain, v1.HTTPGetAction{Path: "/bye", HTTPHeaders: header("host", "shop")}, "/bye of shop"},
		// not a loopback address, since net/http uses no proxy for these
		{"no proxy", plain, v1.HTTPGetAction{Path: "/bye", Host: "0.0.0.0"}, "/bye"},
		{"any certificate", secure,
			v1.HTTPGetAction{Path: "/bye", Scheme: "HTTPS", HTTPHeaders: header("Authorization", "s3")}, "/bye s3"},
		{"HTTPS of a plain server", plain,
			v1.HTTPGetAction{Path: "/bye", Scheme: "HTTPS", HTTPHeaders: header("Authorization", "s3")}, "/bye"},
		{"a closed port", closed, v1.HTTPGetAction{Path: "/bye"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			host, port, err := net.SplitHostPort(c.server.Listener.Addr().String())
			testutil.Must(t, err)
			asked, c.get.Port = "", intstr.Parse(port)
			err = httpHook(t.Context(), hookTarget{ip: host}, &c.get)
			testutil.Assert(t, (err == nil) == (c.want != "") && asked == c.want,
				"%v, asked %q, want %q", err, asked, c.want)
		})
	}
	testutil.Equal(t, proxied.Load(), 0, "requests to the proxy")
}
