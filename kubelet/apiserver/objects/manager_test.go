package objects

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/apiserver/reflector"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/apitest"
)

// run runs a Manager on an API server in memory until the test ends.
func run(t *testing.T, api *apitest.Server) *Manager {
	s := New(
		Options{Core: api.Client(t), patience: 5 * time.Second,
			retry: reflector.Retry{First: 5 * time.Millisecond, Max: 20 * time.Millisecond}})
	testutil.Background(t, func(ctx context.Context) error {
		err := s.Run(ctx)
		testutil.Assert(t, errors.Is(err, context.Canceled), "%v", err)
		return nil
	})
	return s
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }

func settings(color string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: meta("settings"), Data: map[string]string{"color": color}}
}

// podWith returns a pod that mounts config maps and has secrets in its environment.
func podWith(uid string, configMaps, secrets []string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: "pod" + uid, Namespace: "shop"}}
	for _, name := range configMaps {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}},
		}})
	}
	c := v1.Container{Name: "c"}
	for _, name := range secrets {
		c.EnvFrom = append(c.EnvFrom,
			v1.EnvFromSource{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}})
	}
	pod.Spec.Containers = []v1.Container{c}
	return pod
}

// eventually waits for ok, and checks it after each change that the manager signals.
func eventually(t *testing.T, s *Manager, what string, ok func() bool) {
	t.Helper()
	for deadline := time.After(3 * time.Minute); !ok(); {
		select {
		case <-s.Changed():
		case <-deadline:
			t.Fatalf("%s: not observed after three minutes", what)
		}
	}
}

// color returns the value that the pod sees in its settings.
func color(s *Manager, pod *v1.Pod) string {
	found, err := s.ConfigMap(pod, "settings")
	if err != nil {
		return err.Error()
	}
	return found.Data["color"]
}

func TestServer(t *testing.T) {
	api := apitest.Start(t)
	api.Set(settings("red"))
	api.Set(&v1.Secret{ObjectMeta: meta("key"), Data: map[string][]byte{"token": []byte("t0p")}})
	s := run(t, api)
	pod := podWith("1", []string{"settings", "missing"}, []string{"key"})
	s.RegisterPod(pod)
	testutil.Equal(t, color(s, pod), "red", "at first")
	found, err := s.Secret(pod, "key")
	testutil.Assert(t, err == nil && string(found.Data["token"]) == "t0p", "secret %v, %v", found, err)
	_, err = s.ConfigMap(pod, "missing")
	testutil.Assert(t, errdefs.IsNotFound(err), "missing: %v, want an ErrNotFound", err)
	if _, err := s.ConfigMap(pod, "stranger"); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("an object that the pod does not name: %v, want an ErrFailedPrecondition", err)
	}
	api.Set(settings("blue"))
	eventually(t, s, "blue", func() bool { return color(s, pod) == "blue" })
	api.Set(&v1.ConfigMap{ObjectMeta: meta("missing")})
	eventually(t, s, "there now", func() bool { _, err := s.ConfigMap(pod, "missing"); return err == nil })
	api.Delete(settings(""))
	eventually(t, s, "deleted", func() bool { _, err := s.ConfigMap(pod, "settings"); return errdefs.IsNotFound(err) })
}

// TestServerSignalsChangesOfContent: changed metadata does not matter to pods.
func TestServerSignalsChangesOfContent(t *testing.T) {
	api := apitest.Start(t)
	api.Set(settings("red"))
	s := run(t, api)
	pod := podWith("1", []string{"settings"}, nil)
	s.RegisterPod(pod)
	<-s.Changed() // the first read
	testutil.Equal(t, color(s, pod), "red", "color after the first read")
	labelled := settings("red")
	labelled.Labels = map[string]string{"a": "b"}
	api.Set(labelled)
	select {
	case <-s.Changed():
		t.Error("a label counts as a change")
	case <-time.After(50 * time.Millisecond):
	}
}

// TestServerCountsUsers: an object is watched once, as long as any pod names it.
func TestServerCountsUsers(t *testing.T) {
	api := apitest.Start(t)
	api.Set(settings("red"))
	s := run(t, api)
	one, two := podWith("1", []string{"settings"}, nil), podWith("2", []string{"settings"}, nil)
	s.RegisterPod(one)
	s.RegisterPod(two)
	s.RegisterPod(two) // each update of a pod registers it again
	testutil.Assert(t, color(s, one) == "red" && color(s, two) == "red" && count(api, "list configmaps") == 1,
		"asked %q", api.Asked())
	s.UnregisterPod(one.UID)
	s.UnregisterPod(one.UID)
	testutil.Assert(t, color(s, two) == "red", "forgotten with the first pod")
	s.RegisterPod(podWith("2", nil, nil)) // the edited pod names no object
	_, err := s.ConfigMap(two, "settings")
	testutil.Assert(t, errdefs.IsFailedPrecondition(err) && len(s.items) == 0,
		"error %v and items %v for an object that no pod names", err, s.items)
	s.RegisterPod(two)
	testutil.Assert(t, color(s, two) == "red" && count(api, "list configmaps") == 2, "asked %q", api.Asked())
}

func count(api *apitest.Server, what string) int {
	n := 0
	for _, asked := range api.Asked() {
		if strings.HasPrefix(asked, what) {
			n++
		}
	}
	return n
}

// TestServerImmutable: an immutable object is read once.
func TestServerImmutable(t *testing.T) {
	api := apitest.Start(t)
	fixed := settings("red")
	fixed.Immutable = new(true)
	api.Set(fixed)
	s := run(t, api)
	pod := podWith("1", []string{"settings"}, nil)
	s.RegisterPod(pod)
	testutil.Equal(t, color(s, pod), "red", "read")
	s.watches.Wait() // the only watch ends
	api.Delete(fixed)
	testutil.Equal(t, color(s, pod), "red", "later")
}

// TestServerAway: while watches fail, a new object returns the reason, and known objects stay. Afterwards all objects
// are up to date.
func TestServerAway(t *testing.T) {
	api := apitest.Start(t)
	api.Set(settings("red"))
	s := run(t, api)
	s.opts.patience = 50 * time.Millisecond
	one, two := podWith("1", []string{"settings"}, nil), podWith("2", nil, []string{"key"})
	s.RegisterPod(one)
	eventually(t, s, "red", func() bool { return color(s, one) == "red" })
	api.Fail(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no `+
				`relationship found","code":403}`)
	})
	s.RegisterPod(two)
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := s.Secret(two, "key")
		if errdefs.IsUnavailable(err) && strings.Contains(err.Error(), "no relationship found") {
			break
		}
		testutil.Require(t, !time.Now().After(deadline), "error %v, want an ErrUnavailable with the reason", err)
	}
	testutil.Equal(t, color(s, one), "red", "the known object")
	api.Set(settings("blue"))
	api.Set(&v1.Secret{ObjectMeta: meta("key")})
	api.Forget()
	api.Fail(nil)
	eventually(t, s, "blue", func() bool { return color(s, one) == "blue" })
	eventually(t, s, "the secret", func() bool { _, err := s.Secret(two, "key"); return err == nil })
}

// TestTrackBeforeRun: an object has no answer before Run, and is watched after it.
func TestTrackBeforeRun(t *testing.T) {
	api := apitest.Start(t)
	s := New(Options{Core: api.Client(t), patience: 10 * time.Millisecond})
	pod := podWith("1", []string{"settings"}, nil)
	s.RegisterPod(pod)
	_, err := s.ConfigMap(pod, "settings")
	testutil.Assert(t, errdefs.IsUnavailable(err), "error %v, want an ErrUnavailable", err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := testutil.Go(func() error { return s.Run(ctx) })
	<-s.Changed()
	_, err = s.ConfigMap(pod, "settings")
	testutil.Assert(t, errdefs.IsNotFound(err), "error %v, want an ErrNotFound", err)
	cancel()
	<-ended
	s.RegisterPod(podWith("2", []string{"late"}, nil)) // starts no watch after Run
	s.watches.Wait()
}

// answers is a volumekinds.Objects. Its value is the name of all its objects.
type answers string

func (a answers) ConfigMap(*v1.Pod, string) (*v1.ConfigMap, error) {
	return &v1.ConfigMap{ObjectMeta: meta(string(a))}, nil
}

func (a answers) Secret(*v1.Pod, string) (*v1.Secret, error) {
	return &v1.Secret{ObjectMeta: meta(string(a))}, nil
}

func TestByOrigin(t *testing.T) {
	both := ByOrigin(answers("manifests"), answers("server"))
	for source, want := range map[string]string{
		model.SourceFile: "manifests", model.SourceHTTP: "manifests", model.SourceAPI: "server", "": "server",
	} {
		pod := &v1.Pod{}
		if source != "" {
			pod.Annotations = map[string]string{model.AnnotationConfigSource: source}
		}
		configMap, _ := both.ConfigMap(pod, "x")
		secret, _ := both.Secret(pod, "x")
		testutil.Assert(t, configMap.Name == want && secret.Name == want,
			"a pod from %q sees the config map of %s and the secret of %s, want %s", source, configMap.Name,
			secret.Name, want)
	}
}

// TestStaticPodsNameNothing: static pods do not name objects of the server.
func TestStaticPodsNameNothing(t *testing.T) {
	api := apitest.Start(t)
	s := run(t, api)
	pod := podWith("1", []string{"settings"}, nil)
	pod.Annotations = map[string]string{model.AnnotationConfigSource: model.SourceFile}
	s.RegisterPod(pod)
	s.UnregisterPod(pod.UID)
	testutil.Assert(t, len(s.items) == 0 && len(api.Asked()) == 0, "asked %q", api.Asked())
}
