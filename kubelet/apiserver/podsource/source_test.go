package podsource

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/apiserver/reflector"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podconfig"
	"github.com/criadapter/criadapter/kubelet/podconfig/podconfigtest"
	"github.com/criadapter/criadapter/test/apitest"
)

// quick retries soon.
var quick = reflector.Retry{First: 5 * time.Millisecond, Max: 20 * time.Millisecond}

// running is the source, its config, and the errors that it reports.
type running struct {
	*podconfigtest.Running
	config *podconfig.PodConfig
	errors *podconfigtest.Errors
}

// run runs the source of node n's pods until the test ends.
func run(t *testing.T, pods corev1.PodsGetter, config *podconfig.PodConfig) *running {
	found := podconfigtest.NewErrors()
	source := New(Options{Pods: pods, NodeName: "n", Problem: found.Add, retry: quick}, config)
	return &running{Running: podconfigtest.Run(t, config, source.Run), config: config, errors: found}
}

// edited returns a changed copy.
func edited(p *v1.Pod, edit func(*v1.Pod)) *v1.Pod {
	p = p.DeepCopy()
	edit(p)
	return p
}

// bound returns a pod as the API server has it.
func bound(uid, name, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: name, Namespace: "shop",
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
		Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "c", Image: "image"}}},
	}
}

func TestSource(t *testing.T) {
	server := apitest.Start(t)
	one := bound("1", "one", "n")
	server.Set(one)
	server.Set(bound("2", "elsewhere", "other"))
	config := podconfig.New(podconfig.Options{Sources: []string{model.SourceAPI}})
	r := run(t, server.Client(t), config)
	r.Want("the list", "ADD:1")
	image := edited(one, func(p *v1.Pod) { p.Spec.Containers[0].Image = "other" })
	server.Set(image)
	r.Want("an image", "UPDATE:1")
	server.Set(bound("3", "three", "n"))
	r.Want("another pod", "ADD:3")
	server.Set(bound("4", "elsewhere too", "other"))
	status := edited(image, func(p *v1.Pod) { p.Status.Phase = v1.PodRunning })
	server.Set(status)
	r.Want("a status", "RECONCILE:1")
	server.Set(edited(status, func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }))
	r.Want("a deletion", "DELETE:1")
	server.Delete(one)
	r.Want("its end", "REMOVE:1")
	server.Delete(bound("", "three", ""))
	r.Want("a removal", "REMOVE:3")
	testutil.Assert(t, config.SeenAllSources(), "not ready")
	found := r.errors.All()
	testutil.Assert(t, len(found) == 0, "problems %v", found)
}

// TestPodsAreMarked: the source sets defaults of pods and marks the pods as the server's.
func TestPodsAreMarked(t *testing.T) {
	server := apitest.Start(t)
	claimed := bound("1", "one", "n")
	claimed.Annotations = map[string]string{model.AnnotationConfigSource: model.SourceFile}
	server.Set(claimed)
	config := podconfig.New(podconfig.Options{})
	r := run(t, server.Client(t), config)
	first := r.Next().Pods[0]
	testutil.Assert(t, !model.IsStatic(first) && first.Spec.RestartPolicy == v1.RestartPolicyAlways &&
		first.ManagedFields == nil && first.ResourceVersion != "", "pod %+v", first)
	server.Set(edited(claimed, func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} }))
	again := r.Next().Pods[0]
	testutil.Assert(t, again.Annotations[model.AnnotationConfigSeen] == first.Annotations[model.AnnotationConfigSeen],
		"the change reset the time when the pod was first seen")
}

// TestResumes: a broken watch is resumed without another list, also after a bookmark.
func TestResumes(t *testing.T) {
	server := apitest.Start(t)
	r := run(t, server.Client(t), podconfig.New(podconfig.Options{}))
	for !r.config.SeenSource(model.SourceAPI) {
		time.Sleep(time.Millisecond)
	}
	server.Set(bound("1", "one", "n"))
	r.Want("a pod", "ADD:1")
	server.Bookmark()
	server.Set(bound("2", "two", "n"))
	r.Want("a second one", "ADD:2")
	server.Disconnect()
	server.Set(bound("3", "three", "n"))
	r.Want("after the disconnect", "ADD:3")
	asked := server.Asked()
	want := []string{"list pods", "watch pods from 1", "watch pods from 4"}
	testutil.Assert(t, slices.Equal(asked, want), "asked %q, want %q", asked, want)
}

// TestGone: the source lists again when the server no longer has the watch's resource version. The list shows missed
// changes.
func TestGone(t *testing.T) {
	server := apitest.Start(t)
	server.Set(bound("1", "gone", "n"))
	server.Set(bound("2", "replaced", "n"))
	server.Set(bound("3", "stays", "n"))
	r := run(t, server.Client(t), podconfig.New(podconfig.Options{}))
	r.Want("the list", "ADD:1 ADD:2 ADD:3")
	server.Fail(unavailable)
	err := r.errors.Await(t)
	testutil.Assert(t, err != nil, "a server that is away is not a problem")
	server.Delete(bound("", "gone", ""))
	server.Delete(bound("", "replaced", ""))
	server.Set(bound("4", "replaced", "n"))
	server.Set(bound("5", "new", "n"))
	server.Forget()
	server.Fail(nil)
	r.Want("the new list", "REMOVE:1 REMOVE:2 ADD:5 ADD:4")
	testutil.Check(t, r.errors.Await(t), "the problem has not ended")
}

func unavailable(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
}

// TestBetweenListAndWatch: no change between the list and the watch is lost.
func TestBetweenListAndWatch(t *testing.T) {
	server := apitest.Start(t)
	server.Set(bound("1", "one", "n"))
	server.AfterList(func() {
		server.Set(bound("2", "two", "n"))
		server.Delete(bound("", "one", ""))
	})
	r := run(t, server.Client(t), podconfig.New(podconfig.Options{}))
	wanted := map[types.UID]bool{}
	for len(wanted) != 1 || !wanted["2"] { // pod 1 may come before its deletion, or never
		u := r.Next()
		for _, pod := range u.Pods {
			if delete(wanted, pod.UID); u.Op == podconfig.Add {
				wanted[pod.UID] = true
			}
		}
	}
}

// TestFails: while requests fail, the pods stay, and the reason is reported once. Changes come again afterwards.
func TestFails(t *testing.T) {
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
		"forbidden": {status(http.StatusForbidden, metav1.StatusReasonForbidden),
			"denies the request to the kubeconfig's user"},
		"unauthorized": {status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized),
			"does not accept the kubeconfig's credentials"},
		"failing": {status(http.StatusInternalServerError, metav1.StatusReasonInternalError), "no"},
		"garbage": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>hello")
		}, "cannot be reached or understood"},
	} {
		t.Run(name, func(t *testing.T) {
			server := apitest.Start(t)
			server.Set(bound("1", "one", "n"))
			r := run(t, server.Client(t), podconfig.New(podconfig.Options{}))
			r.Want("the list", "ADD:1")
			server.Forget()
			server.Fail(c.answer)
			err := r.errors.Await(t)
			testutil.Assert(t, err != nil && strings.Contains(err.Error(), c.want), "problem %v, want %q", err, c.want)
			for before := len(server.Asked()); len(server.Asked()) < before+5; {
				time.Sleep(time.Millisecond)
			}
			n := len(r.errors.All())
			testutil.Assert(t, n == 1, "reported %d times: %v", n, r.errors.All())
			server.Set(bound("2", "two", "n"))
			server.Fail(nil)
			r.Want("right again", "ADD:2") // and nothing about pod 1, which was kept
			testutil.Check(t, r.errors.Await(t), "the problem has not ended")
		})
	}
}

// TestAway: a missing server is reported once, although each dial has another local port. Changes come again when the
// server is back.
func TestAway(t *testing.T) {
	server := apitest.Start(t)
	server.Set(bound("1", "one", "n"))
	var dials atomic.Int32
	client := apitest.ClientFor(t,
		&rest.Config{Host: server.URL(), Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if n := dials.Add(1); n <= 5 {
				return nil, fmt.Errorf("dial %d: %w", n, syscall.ECONNREFUSED)
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}})
	config := podconfig.New(podconfig.Options{Sources: []string{model.SourceAPI}})
	r := run(t, client, config)
	err := r.errors.Await(t)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "cannot be reached") && !config.SeenAllSources(),
		"problem %v, ready %v", err, config.SeenAllSources())
	r.Want("when the server is there", "ADD:1")
	testutil.Check(t, r.errors.Await(t), "the problem has not ended")
}

// TestWrongCertificate: a wrong certificate is reported once, and restored pods stay.
func TestWrongCertificate(t *testing.T) {
	asked := make(chan struct{}, 100)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(writer(func() { asked <- struct{}{} }), "", 0) // one line per failed handshake
	server.StartTLS()
	defer server.Close()
	checkpoint := &podconfig.Checkpoint{Path: filepath.Join(t.TempDir(), "pods.json")}
	testutil.Must(t, checkpoint.Save([]*v1.Pod{fromServer(bound("1", "one", "n"), nil)}))
	config := podconfig.New(podconfig.Options{Checkpoint: checkpoint, Sources: []string{model.SourceAPI}})
	_, err := config.Restore(t.Context())
	testutil.Must(t, err)
	r := run(t, apitest.ClientFor(t, &rest.Config{Host: server.URL}), config)
	r.Want("restored", "ADD:1")
	if err := r.errors.Await(t); err == nil || !strings.Contains(err.Error(), "certificate-authority") {
		t.Errorf("problem %v, want one that names the certificate", err)
	}
	for range 3 {
		<-asked
	}
	n := len(r.errors.All())
	testutil.Assert(t, n == 1 && !config.SeenAllSources() && len(config.Updates()) == 0,
		"reported %d times, ready %v, %d changes", n, config.SeenAllSources(), len(config.Updates()))
}

// writer calls a function for each write.
type writer func()

func (w writer) Write(text []byte) (int, error) {
	w()
	return len(text), nil
}

// TestPodCannotPassAsStatic: annotations of a server's pod about its origin are ignored.
func TestPodCannotPassAsStatic(t *testing.T) {
	var refused []string
	config := podconfig.New(
		podconfig.Options{Refused: func(r podconfig.Refusal) { refused = append(refused, r.Err.Error()) }})
	static, claim := bound("1", "one", ""), bound("2", "one", "n")
	static.Annotations = map[string]string{model.AnnotationConfigSource: model.SourceFile,
		model.AnnotationManifest: "x"}
	claim.Annotations = static.Annotations
	testutil.Must(t, config.Set(t.Context(), model.SourceFile, []*v1.Pod{static}))
	server := apitest.Start(t)
	server.Set(claim)
	r := run(t, server.Client(t), config)
	r.Want("refused", "ADD:1 RECONCILE:1")
	testutil.Assert(t, len(refused) == 1, "refused %q", refused)
	testutil.Must(t, config.Set(t.Context(), model.SourceFile, nil))
	r.Want("when the name is free", "REMOVE:1 ADD:2")
}
