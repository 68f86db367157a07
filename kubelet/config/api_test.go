package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/criadapter/criadapter/kubelet/follow"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/apitest"
)

// problems collects what a source tells. It is safe for concurrent use.
type problems struct {
	mu   sync.Mutex
	told []error
	more chan struct{}
}

func newProblems() *problems { return &problems{more: make(chan struct{}, 100)} }

func (p *problems) tell(_ string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, err)
	p.more <- struct{}{}
}

func (p *problems) all() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.told)
}

// await waits for one more problem, and returns it.
func (p *problems) await(t *testing.T) error {
	t.Helper()
	select {
	case <-p.more:
	case <-time.After(10 * time.Second):
		t.Fatal("no problem is told")
	}
	all := p.all()
	return all[len(all)-1-len(p.more)]
}

// running is a source that runs, with the mux it tells.
type running struct {
	t        *testing.T
	mux      *Mux
	problems *problems
	words    []string // told and not asked for
}

// run runs a source as long as the test.
func run(t *testing.T, mux *Mux, found *problems, source func(context.Context) error) *running {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := source(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("the source ended: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		ended.Wait()
		mux.Wait()
	})
	return &running{t: t, mux: mux, problems: found}
}

// next waits for the next change.
func (r *running) next() Update {
	r.t.Helper()
	select {
	case u := <-r.mux.Updates():
		return u
	case <-time.After(10 * time.Second):
		r.t.Fatalf("nothing more is told than %q", r.words)
		return Update{}
	}
}

// want waits for the next changes, and says what they must be.
func (r *running) want(what, words string) {
	r.t.Helper()
	for len(r.words) < len(strings.Fields(words)) {
		u := r.next()
		for _, pod := range u.Pods {
			r.words = append(r.words, fmt.Sprintf("%s:%s", u.Op, pod.UID))
		}
	}
	if got := strings.Join(r.words, " "); got != words {
		r.t.Fatalf("%s: told %q, want %q", what, got, words)
	}
	r.words = nil
}

// quick has a server that is away asked again soon.
var quick = follow.Retry{First: 5 * time.Millisecond, Max: 20 * time.Millisecond}

func runAPI(t *testing.T, pods corev1.PodsGetter, mux *Mux) *running {
	found := newProblems()
	return run(t, mux, found, NewAPI(APIOptions{Pods: pods, NodeName: "n", Problem: found.tell, Retry: quick}, mux).Run)
}

// bound is a pod as the API server has it.
func bound(uid, name, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: name, Namespace: "shop", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
		Spec:       v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "c", Image: "image"}}},
	}
}

func TestAPI(t *testing.T) {
	server := apitest.New(t)
	one := bound("1", "one", "n")
	server.Set(one)
	server.Set(bound("2", "elsewhere", "other"))
	mux := NewMux(Options{Sources: []string{model.SourceAPI}})
	r := runAPI(t, server.Client(t), mux)
	r.want("the list", "ADD:1")
	image := edited(one, func(p *v1.Pod) { p.Spec.Containers[0].Image = "other" })
	server.Set(image)
	r.want("an image", "UPDATE:1")
	server.Set(bound("3", "three", "n"))
	r.want("another pod", "ADD:3")
	server.Set(bound("4", "elsewhere too", "other"))
	status := edited(image, func(p *v1.Pod) { p.Status.Phase = v1.PodRunning })
	server.Set(status)
	r.want("a status", "RECONCILE:1")
	server.Set(edited(status, func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }))
	r.want("a deletion", "DELETE:1")
	server.Delete(one)
	r.want("its end", "REMOVE:1")
	server.Delete(bound("", "three", ""))
	r.want("a removal", "REMOVE:3")
	if !mux.Ready() {
		t.Error("not ready")
	}
	if found := r.problems.all(); len(found) != 0 {
		t.Errorf("problems %v", found)
	}
}

// TestAPIPodsAreMarked defaults pods and marks them as the server's.
func TestAPIPodsAreMarked(t *testing.T) {
	server := apitest.New(t)
	claimed := bound("1", "one", "n")
	claimed.Annotations = map[string]string{model.AnnotationConfigSource: model.SourceFile}
	server.Set(claimed)
	mux := NewMux(Options{})
	r := runAPI(t, server.Client(t), mux)
	first := r.next().Pods[0]
	if model.IsStatic(first) || first.Spec.RestartPolicy != v1.RestartPolicyAlways || first.ManagedFields != nil || first.ResourceVersion == "" {
		t.Errorf("pod %+v", first)
	}
	server.Set(edited(claimed, func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} }))
	if again := r.next().Pods[0]; again.Annotations[model.AnnotationConfigSeen] != first.Annotations[model.AnnotationConfigSeen] {
		t.Error("a pod that changed counts as seen only now")
	}
}

// TestAPIResumes goes on after a broken watch where it was, bookmarks included, without another list.
func TestAPIResumes(t *testing.T) {
	server := apitest.New(t)
	r := runAPI(t, server.Client(t), NewMux(Options{}))
	for !r.mux.answered() {
		time.Sleep(time.Millisecond)
	}
	server.Set(bound("1", "one", "n"))
	r.want("a pod", "ADD:1")
	server.Bookmark()
	server.Set(bound("2", "two", "n"))
	r.want("a second one", "ADD:2")
	server.Disconnect()
	server.Set(bound("3", "three", "n"))
	r.want("after the disconnect", "ADD:3")
	asked := server.Asked()
	if want := []string{"list pods", "watch pods from 1", "watch pods from 4"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// answered says whether the API source has spoken.
func (m *Mux) answered() bool {
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	return m.seen[model.SourceAPI]
}

// TestAPIGone lists again when the server has forgotten where the watch was, and finds what it missed.
func TestAPIGone(t *testing.T) {
	server := apitest.New(t)
	server.Set(bound("1", "gone", "n"))
	server.Set(bound("2", "replaced", "n"))
	server.Set(bound("3", "stays", "n"))
	r := runAPI(t, server.Client(t), NewMux(Options{}))
	r.want("the list", "ADD:1 ADD:2 ADD:3")
	server.Fail(unavailable)
	if err := r.problems.await(t); err == nil {
		t.Error("a server that is away is no problem")
	}
	server.Delete(bound("", "gone", ""))
	server.Delete(bound("", "replaced", ""))
	server.Set(bound("4", "replaced", "n"))
	server.Set(bound("5", "new", "n"))
	server.Forget()
	server.Fail(nil)
	r.want("the new list", "REMOVE:1 REMOVE:2 ADD:5 ADD:4")
	if err := r.problems.await(t); err != nil {
		t.Errorf("problem %v, want its end", err)
	}
}

func unavailable(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
}

// TestAPIBetweenListAndWatch loses nothing that happens after the list was made and before the watch begins.
func TestAPIBetweenListAndWatch(t *testing.T) {
	server := apitest.New(t)
	server.Set(bound("1", "one", "n"))
	server.AfterList(func() {
		server.Set(bound("2", "two", "n"))
		server.Delete(bound("", "one", ""))
	})
	r := runAPI(t, server.Client(t), NewMux(Options{}))
	wanted := map[types.UID]bool{}
	for len(wanted) != 1 || !wanted["2"] { // the first pod may be told, or never
		u := r.next()
		for _, pod := range u.Pods {
			if delete(wanted, pod.UID); u.Op == Add {
				wanted[pod.UID] = true
			}
		}
	}
}

// TestAPIFails keeps the pods while the server cannot be asked, says why once, and goes on when it can.
func TestAPIFails(t *testing.T) {
	status := func(code int, reason metav1.StatusReason) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"no","code":%d}`, reason, code)
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"forbidden":    {status(http.StatusForbidden, metav1.StatusReasonForbidden), "does not let the kubeconfig's user ask"},
		"unauthorized": {status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized), "does not know the kubeconfig's user"},
		"failing":      {status(http.StatusInternalServerError, metav1.StatusReasonInternalError), "no"},
		"garbage":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello") }, "cannot be reached or understood"},
	} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New(t)
			server.Set(bound("1", "one", "n"))
			r := runAPI(t, server.Client(t), NewMux(Options{}))
			r.want("the list", "ADD:1")
			server.Forget()
			server.Fail(c.answer)
			if err := r.problems.await(t); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("problem %v, want %q", err, c.want)
			}
			for before := len(server.Asked()); len(server.Asked()) < before+5; {
				time.Sleep(time.Millisecond)
			}
			if n := len(r.problems.all()); n != 1 {
				t.Errorf("told %d times: %v", n, r.problems.all())
			}
			server.Set(bound("2", "two", "n"))
			server.Fail(nil)
			r.want("right again", "ADD:2") // and nothing of the first one: it was kept
			if err := r.problems.await(t); err != nil {
				t.Errorf("problem %v, want its end", err)
			}
		})
	}
}

// TestAPIAway says once that nobody answers, whatever port each dial has, and goes on when somebody does.
func TestAPIAway(t *testing.T) {
	server := apitest.New(t)
	server.Set(bound("1", "one", "n"))
	var dials atomic.Int32
	client := apitest.ClientFor(t, &rest.Config{Host: server.URL(), Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if n := dials.Add(1); n <= 5 {
			return nil, fmt.Errorf("dial %d: %w", n, syscall.ECONNREFUSED)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}})
	mux := NewMux(Options{Sources: []string{model.SourceAPI}})
	r := runAPI(t, client, mux)
	if err := r.problems.await(t); err == nil || !strings.Contains(err.Error(), "cannot be reached") || mux.Ready() {
		t.Errorf("problem %v, ready %v", err, mux.Ready())
	}
	r.want("when it is there", "ADD:1")
	if err := r.problems.await(t); err != nil {
		t.Errorf("problem %v, want its end", err)
	}
}

// TestAPIWrongCertificate says so, once, and keeps the restored pods.
func TestAPIWrongCertificate(t *testing.T) {
	asked := make(chan struct{}, 100)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(writer(func() { asked <- struct{}{} }), "", 0) // one line per failed handshake
	server.StartTLS()
	defer server.Close()
	checkpoint := &Checkpoint{Path: filepath.Join(t.TempDir(), "pods.json")}
	if err := checkpoint.Save([]*v1.Pod{apiPod("1", "one")}); err != nil {
		t.Fatal(err)
	}
	mux := NewMux(Options{Checkpoint: checkpoint, Sources: []string{model.SourceAPI}})
	if _, err := mux.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := runAPI(t, apitest.ClientFor(t, &rest.Config{Host: server.URL}), mux)
	r.want("restored", "ADD:1")
	if err := r.problems.await(t); err == nil || !strings.Contains(err.Error(), "certificate-authority") {
		t.Errorf("problem %v, want one that names the certificate", err)
	}
	for range 3 {
		<-asked
	}
	if n := len(r.problems.all()); n != 1 || mux.Ready() || len(mux.Updates()) != 0 {
		t.Errorf("told %d times, ready %v, %d changes", n, mux.Ready(), len(mux.Updates()))
	}
}

// writer calls a function for each write.
type writer func()

func (w writer) Write(text []byte) (int, error) {
	w()
	return len(text), nil
}
