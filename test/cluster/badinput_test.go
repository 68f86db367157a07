package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/cluster/controlplane"
)

// noMemory gives the node a pod that is too large for it, without the scheduler.
func noMemory(s *scene) {
	s.applyPod("big", `
  nodeName: NODENAME
  containers: [{name: main, image: SHELL, command: [sleep, "3600"], resources: {requests: {memory: 1000Ti}}}]
`)
	s.rejected("big", "OutOfmemory", "memory")
	s.nothingRuns()
}

// unknownVolume gives the node a volume that only a storage driver could mount.
func unknownVolume(s *scene) {
	s.applyPod("odd", `
  volumes: [{name: far, nfs: {server: 192.0.2.1, path: /}}]
  containers: [{name: main, image: SHELL, command: [sleep, "3600"], volumeMounts: [{name: far, mountPath: /far}]}]
`)
	s.rejected("odd", "UnsupportedField", "nfs")
	s.nothingRuns()
}

// rejected waits until a pod has failed with this reason, and with about in its message.
func (s *scene) rejected(name, reason, about string) {
	s.Helper()
	s.until(name, func(pod *v1.Pod) error {
		status := pod.Status
		if status.Phase != v1.PodFailed || status.Reason != reason || !strings.Contains(status.Message, about) {
			return fmt.Errorf("phase %s, reason %q, message %q", status.Phase, status.Reason, status.Message)
		}
		return nil
	})
}

// staticTwin is a manifest. Its mirror pod is called twin-NODENAME.
func (s *scene) staticTwin() string {
	return `
apiVersion: v1
kind: Pod
metadata: {name: twin, namespace: ` + s.namespace + `}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: static, image: SHELL, command: [sleep, "3600"]}]
`
}

// twoSources shows that a name belongs to the first pod until that pod is gone, and then to the second.
func twoSources(s *scene) {
	name := "twin-" + s.node.name
	s.apply(`
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: served, image: SHELL, command: [sleep, "3600"]}]
`)
	s.ready("pod/" + name)
	before, err := container(s.pod(name))
	testutil.Must(s, err)
	manifest := s.nodeManifest("twin.yaml", s.staticTwin())
	s.event(name, "PodRefused")
	if now, err := container(s.pod(name)); err != nil || now.ContainerID != before.ContainerID || !now.Ready {
		s.Errorf("the first pod has %+v, %v; it had %s", now, err, before.ContainerID)
	}
	s.kubectl("delete", "pod", name, "--wait=false")
	s.until(name, func(pod *v1.Pod) error {
		status, err := container(pod)
		if err != nil {
			return err
		}
		if status.Name != "static" || !status.Ready || pod.Annotations[v1.MirrorPodAnnotationKey] == "" {
			return fmt.Errorf("container %s, ready %v, annotations %v", status.Name, status.Ready, pod.Annotations)
		}
		return nil
	})
	testutil.Must(s, os.Remove(manifest))
	s.nothingRuns()
}

// badURL shows that a misbehaving manifest URL does no harm: the URL's pods stay as they are, and other pods run.
func badURL(s *scene) {
	const hang, garbage, good = 0, 1, 2
	var mood atomic.Int32
	pod := s.expand(strings.NewReplacer("twin", "remote").Replace(s.staticTwin()))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Word") != "sesame":
			http.Error(w, "which word?", http.StatusForbidden)
		case mood.Load() == hang:
			<-r.Context().Done()
		case mood.Load() == garbage:
			fmt.Fprint(w, "\x00kind: {[")
		default:
			fmt.Fprint(w, pod)
		}
	}))
	s.Cleanup(server.Close)
	core := s.newLoneCore("--manifest-url", server.URL, "--manifest-url-header", "X-Word:sesame",
		"--http-check-frequency", "1s")
	s.writeManifest(filepath.Join(core.manifests, "twin.yaml"), s.staticTwin())
	core.start()
	s.eventually("the directory's pod runs beside a URL that hangs", func() error { return core.runs("twin") })
	s.eventually("the silence is logged", func() error { return logHas(core.log(), server.URL, "deadline exceeded") })
	mood.Store(good)
	s.eventually("the URL's pod runs", func() error { return core.runs("remote") })
	before := core.containers()
	mood.Store(garbage)
	s.eventually("the garbage is logged", func() error { return logHas(core.log(), server.URL, "control characters") })
	now := core.containers()
	testutil.Assert(s, fmt.Sprint(now) == fmt.Sprint(before), "containers were %v and are %v", before, now)
}

// wrongAuthority shows a kubelet whose API server has a certificate of an unknown authority. The kubelet runs the pods
// of its manifest directory, and sends the server nothing.
func wrongAuthority(s *scene) {
	dir, err := os.MkdirTemp(s.plane.Dir, "wrong")
	testutil.Must(s, err)
	authority, err := controlplane.NewAuthority(dir, "other")
	testutil.Must(s, err)
	name := "node-deceived"
	client, err := s.plane.Authority.Client("system:node:"+name, "system:nodes")
	testutil.Must(s, err)
	config := filepath.Join(dir, "kubeconfig")
	testutil.Must(s, controlplane.Kubeconfig(config, s.plane.URL, authority.CAFile, client))
	core := s.newLoneCore("--kubeconfig", config)
	s.writeManifest(filepath.Join(core.manifests, "twin.yaml"), s.staticTwin())
	core.owner = name
	core.start()
	s.eventually("the directory's pod runs", func() error { return core.runs("twin") })
	const reason = "certificate signed by unknown authority"
	s.eventually("the reason is logged", func() error { return logHas(core.log(), reason) })
	_, err = s.core.Nodes().Get(s.Context(), name, metav1.GetOptions{})
	testutil.Assert(s, apierrors.IsNotFound(err), "the server has the node: %v", err)
}

// nodeManifest gives the node a static pod and returns its file. The pod is removed at the end of the scene at the
// latest.
func (s *scene) nodeManifest(name, text string) string {
	s.Helper()
	path := filepath.Join(s.node.manifests, name)
	s.writeManifest(path, text)
	s.Cleanup(func() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.Error(err)
		}
	})
	return path
}

// writeManifest puts a manifest into a directory atomically.
func (s *scene) writeManifest(path, text string) {
	s.Helper()
	temporary := filepath.Join(s.node.server.Dir, filepath.Base(path)+"."+s.namespace)
	testutil.Must(s, errors.Join(os.WriteFile(temporary, []byte(s.expand(text)), 0o644), os.Rename(temporary, path)))
}

// logHas fails unless one line of a log has all the words.
func logHas(path string, words ...string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		has := true
		for _, word := range words {
			has = has && strings.Contains(line, word)
		}
		if has {
			return nil
		}
	}
	return fmt.Errorf("%s has no line with %q", filepath.Base(path), words)
}
