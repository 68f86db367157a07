package cluster

import (
	"errors"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// staticPod shows that a pod of the manifests' directory has a mirror pod at the API server. The pod runs on when its
// mirror is deleted. It ends only when its manifest goes.
func staticPod(s *scene) {
	manifest := s.nodeManifest("static.yaml", `
apiVersion: v1
kind: Pod
metadata: {name: static, namespace: `+s.namespace+`}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: SHELL, command: [sh, -c, "echo static; sleep 3600"]}]
`)
	name := "static-" + s.node.name
	s.kubectl("wait", "--for=create", "pod/"+name, waitLimit)
	s.ready("pod/" + name)
	first := s.pod(name)
	testutil.Assert(s, first.Annotations[v1.MirrorPodAnnotationKey] != "", "annotations %v", first.Annotations)
	if len(first.OwnerReferences) != 1 || first.OwnerReferences[0].Kind != "Node" ||
		first.OwnerReferences[0].Name != s.node.name {
		s.Errorf("owners %v", first.OwnerReferences)
	}
	testutil.Equal(s, s.kubectl("logs", name), "static", "its log")
	testutil.Equal(s, s.kubectl("exec", name, "--", "echo", "hello"), "hello", "exec")
	before, err := container(first)
	testutil.Must(s, err)
	s.kubectl("delete", "pod", name, "--wait=false")
	s.until(name, func(now *v1.Pod) error {
		if now.UID == first.UID {
			return errors.New("the mirror is the deleted one")
		}
		status, err := container(now)
		if err != nil {
			return err
		}
		if status.ContainerID != before.ContainerID || !status.Ready {
			return fmt.Errorf("its container is %+v, before it was %s", status, before.ContainerID)
		}
		return nil
	})
	testutil.Must(s, os.Remove(manifest))
	s.eventually("the mirror goes with the manifest", func() error {
		_, err := s.core.Pods(s.namespace).Get(s.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the mirror exists, or cannot be read: %w", err)
	})
	s.nothingRuns()
}
