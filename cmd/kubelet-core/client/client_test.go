package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// fakeKubelet answers like the read-only endpoint of a kubelet core.
type fakeKubelet struct {
	mu     sync.Mutex
	pods   []v1.Pod
	events []v1.Event
	config Config
	away   bool
}

func (f *fakeKubelet) change(do func(*fakeKubelet)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(f)
}

func (f *fakeKubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answers := map[string]any{"/pods": v1.PodList{Items: f.pods}, "/events": v1.EventList{Items: f.events},
		"/configz": f.config}
	answer, ok := answers[r.URL.Path]
	if !ok || f.away {
		http.Error(w, "not here", http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(answer) // without an answer, the test fails
}

func newFake(t *testing.T, pods ...v1.Pod) (*Client, *fakeKubelet) {
	t.Helper()
	fake := &fakeKubelet{pods: pods}
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	return New(strings.TrimPrefix(server.URL, "http://")), fake
}

// running is a pod with one running container.
func running(namespace, name string) v1.Pod {
	return v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-node1",
			UID: types.UID("uid-" + namespace + name)},
		Spec: v1.PodSpec{NodeName: "Node1", Containers: []v1.Container{{Name: "main"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: []v1.ContainerStatus{
			{Name: "main", Ready: true, ContainerID: "docker://abc",
				State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}},
	}
}

func TestFind(t *testing.T) {
	asked, _ := newFake(t, running("a", "web"), running("b", "web"), running("a", "db"))
	for _, c := range []struct {
		ref  Ref
		want string
		err  error
	}{
		{Ref{Name: "db"}, "a/db-node1", nil}, {Ref{Name: "pod/db-node1"}, "a/db-node1", nil},
		{Ref{Name: "web", Namespace: "b"}, "b/web-node1", nil},
		{Ref{Name: "web"}, "", errdefs.ErrInvalidArgument}, {Ref{Name: "d"}, "", errdefs.ErrNotFound},
		{Ref{Name: "db", Namespace: "b"}, "", errdefs.ErrNotFound},
	} {
		pod, err := asked.Find(t.Context(), c.ref)
		testutil.Assert(t, errors.Is(err, c.err) && (err != nil || pod.Namespace+"/"+pod.Name == c.want),
			"%v: %v, %v; want %s, %v", c.ref, pod, err, c.want, c.err)
	}
}

func TestNoKubeletAnswers(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := strings.TrimPrefix(server.URL, "http://")
	_, err := New(address).Pods(t.Context())
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "is that a kubelet core?"),
		"another server: %v", err)
	server.Close()
	_, err = New(address).Pods(t.Context())
	testutil.Assert(t, errors.Is(err, errdefs.ErrUnavailable) && strings.Contains(err.Error(), address),
		"no server: %v, want ErrUnavailable with the address", err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = New(address).Pods(ctx)
	testutil.Assert(t, errors.Is(err, context.Canceled), "given up: %v", err)
}

func TestContainerChoice(t *testing.T) {
	pod := running("a", "web")
	pod.Spec.InitContainers = []v1.Container{{Name: "init"},
		{Name: "side", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}
	pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "other"})
	name, others, err := Container(&pod, "")
	testutil.Assert(t, name == "main" && strings.Join(others, " ") == "init (init) side (init) main other" &&
		err == nil, "%s, %v, %v", name, others, err)
	name, others, err = Container(&pod, "side")
	testutil.Assert(t, name == "side" && others == nil && err == nil, "%s, %v, %v", name, others, err)
	_, _, err = Container(&pod, "none")
	testutil.Assert(t, errors.Is(err, errdefs.ErrNotFound), "%v", err)
	pod.Annotations = map[string]string{defaultContainer: "other"}
	name, others, err = Container(&pod, "")
	testutil.Assert(t, name == "other" && others == nil && err == nil, "%s, %v, %v", name, others, err)
	_, _, err = Container(&v1.Pod{}, "")
	testutil.Assert(t, errors.Is(err, errdefs.ErrNotFound), "%v", err)
}

func TestTable(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	web, db := running("b", "web"), running("a", "database")
	web.CreationTimestamp = metav1.Time{Time: now.Add(-90 * time.Minute)}
	web.Status.ContainerStatuses[0].RestartCount = 2
	web.Status.ContainerStatuses[0].LastTerminationState = v1.ContainerState{
		Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.Time{Time: now.Add(-10 * time.Second)}}}
	db.Annotations = map[string]string{model.AnnotationConfigSeen: now.Add(-26 * time.Hour).Format(time.RFC3339Nano)}
	db.Status.PodIP = ""
	var out strings.Builder
	testutil.Must(t, WriteTable(&out, []v1.Pod{web, db}, TableOptions{Now: now}))
	const want = `
NAMESPACE   NAME             READY   STATUS    RESTARTS      AGE   IP
a           database-node1   1/1     Running   0             26h   <none>
b           web-node1        1/1     Running   2 (10s ago)   90m   10.0.0.1
`
	testutil.Equal(t, "\n"+out.String(), want, "the table")
	out.Reset()
	web.Spec.Containers[0].Image = "example.com/web:1"
	testutil.Must(t, WriteTable(&out, []v1.Pod{web}, TableOptions{Now: now, Wide: true}))
	const wide = `
NAMESPACE   NAME        READY   STATUS    RESTARTS      AGE   IP         NODE    IMAGES
b           web-node1   1/1     Running   2 (10s ago)   90m   10.0.0.1   Node1   example.com/web:1
`
	testutil.Equal(t, "\n"+out.String(), wide, "a wide table")
}

// shows waits until a text is in the output.
func shows(t *testing.T, out *testutil.Buffer, want string) {
	t.Helper()
	testutil.Eventually(t, func() error {
		if got := out.String(); !strings.Contains(got, want) {
			return fmt.Errorf("no %q in\n%s", want, got)
		}
		return nil
	})
}

func TestWatch(t *testing.T) {
	asked, fake := newFake(t, running("a", "web"))
	out := &testutil.Buffer{}
	stop := testutil.Background(t, func(ctx context.Context) error {
		return asked.Watch(ctx, out, WatchOptions{period: time.Millisecond})
	})
	shows(t, out, "web-node1")
	fake.change(func(f *fakeKubelet) { f.away = true })
	time.Sleep(20 * time.Millisecond)
	fake.change(func(f *fakeKubelet) {
		f.away = false
		f.pods = []v1.Pod{running("a", "web")}
		f.pods[0].Status.ContainerStatuses[0].State = waiting("CrashLoopBackOff")
	})
	shows(t, out, "CrashLoopBackOff")
	fake.change(func(f *fakeKubelet) { f.pods = nil })
	shows(t, out, "Gone")
	stop()
	got := strings.Count(out.String(), "\n")
	testutil.Assert(t, got == 4, "%d lines, want the header and three changes:\n%s", got, out.String())
	fake.change(func(f *fakeKubelet) { f.away = true })
	err := asked.Watch(t.Context(), out, WatchOptions{})
	testutil.Assert(t, err != nil, "a watch that never began is not an error")
}

func TestDescription(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	pod := running("a", "web")
	pod.UID = "u1"
	pod.Annotations = map[string]string{model.AnnotationManifest: "/m/web.yaml", model.AnnotationConfigHash: "hidden",
		"note": "shown"}
	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "1"},
		{Name: "S",
			ValueFrom: &v1.EnvVarSource{
				SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "key"},
					Key: "token"}}}}
	pod.Spec.Volumes = []v1.Volume{
		{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "key"}}}}
	event := func(uid, reason string, count int32) v1.Event {
		return v1.Event{InvolvedObject: v1.ObjectReference{UID: "u1"}, Type: "Warning", Reason: reason, Message: uid,
			Count:          count,
			FirstTimestamp: metav1.Time{Time: now.Add(-time.Hour)},
			LastTimestamp:  metav1.Time{Time: now.Add(-time.Minute)}}
	}
	other := event("other", "NotOurs", 1)
	other.InvolvedObject.UID = "u2"
	var out strings.Builder
	testutil.Must(t, WriteDescription(&out, &pod, []v1.Event{event("one", "Unhealthy", 3), other}, now))
	for _, want := range []string{"Manifest:           /m/web.yaml\n", "note=shown", "A=1\n",
		"S=<key token of secret key>", "v:                secret key", "60s (x3 over 60m)"} {
		testutil.Assert(t, strings.Contains(out.String(), want), "no %q in\n%s", want, out.String())
	}
	for _, hidden := range []string{"hidden", "NotOurs"} {
		testutil.Assert(t, !strings.Contains(out.String(), hidden), "%q is in\n%s", hidden, out.String())
	}
	err := WriteDescription(failing{}, &pod, nil, now)
	testutil.Assert(t, errors.Is(err, errFull), "got %v", err)
}

var errFull = errors.New("full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }
