package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// userNamespace runs a pod with user ids of its own (KEP-127). Its root is an unprivileged user of the node. It can
// write its volume and read its secret, and its files belong to root on the node as well.
func userNamespace(s *scene) {
	s.announcesUserNamespaces()
	s.apply(`
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {word: sesame}
---
apiVersion: v1
kind: Pod
metadata: {name: own-users}
spec:
  hostUsers: false
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: data, emptyDir: {}}
  - {name: password, secret: {secretName: password, defaultMode: 0400}}
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "id -u; cat /password/word; echo; sleep 3600"]
    volumeMounts: [{name: data, mountPath: /data}, {name: password, mountPath: /password}]
`)
	s.ready("pod/own-users")
	pod := s.pod("own-users")
	s.prints("0\nsesame", "logs", "own-users")
	got := s.kubectl("exec", "own-users", "--", "sh", "-c",
		"id -u; echo mine > /data/file; stat -c %u /data/file; cat /proc/self/uid_map | xargs")
	lines := strings.Fields(got)
	if len(lines) != 5 || lines[0] != "0" || lines[1] != "0" || lines[2] != "0" || lines[3] == "0" ||
		lines[4] != "65536" {
		s.Fatalf("inside the container: %q", got)
	}
	testutil.Equal(s, s.owner(pod), lines[3], "the node's user id of its process")
	s.fileOfRoot(
		filepath.Join(s.node.root, "pods", string(pod.UID), "volumes", "kubernetes.io~empty-dir", "data", "file"),
		"mine\n")
}

// announcesUserNamespaces waits until the node object has the feature for the runtime's default handler.
func (s *scene) announcesUserNamespaces() {
	s.Helper()
	s.eventually("the node announces user namespaces", func() error {
		node, err := s.nodeObject(s.Context())
		if err != nil {
			return err
		}
		for _, handler := range node.Status.RuntimeHandlers {
			if f := handler.Features; handler.Name == "" && f != nil && f.UserNamespaces != nil && *f.UserNamespaces {
				return nil
			}
		}
		return fmt.Errorf("its runtime handlers are %v", node.Status.RuntimeHandlers)
	})
}

// owner returns the user of the first process of a pod's only container, as a user id of the node.
func (s *scene) owner(pod *v1.Pod) string {
	s.Helper()
	status, err := container(pod)
	testutil.Must(s, err)
	_, id, _ := strings.Cut(status.ContainerID, "://")
	answer, err := s.node.server.Runtime.ContainerStatus(s.Context(), id, true)
	testutil.Must(s, err)
	var info struct {
		PID int `json:"pid"`
	}
	err = json.Unmarshal([]byte(answer.GetInfo()["info"]), &info)
	testutil.Require(s, err == nil && info.PID != 0, "no process in %v: %v", answer.GetInfo(), err)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", info.PID))
	testutil.Must(s, err)
	_, rest, _ := strings.Cut(string(text), "\nUid:")
	fields := strings.Fields(rest)
	testutil.Require(s, len(fields) != 0, "no user in %q", text)
	return fields[0]
}

// fileOfRoot checks that a file of the node has this text and belongs to the node's root.
func (s *scene) fileOfRoot(path, want string) {
	s.Helper()
	text, err := os.ReadFile(path)
	testutil.Require(s, err == nil && string(text) == want, "%s has %q, %v", path, text, err)
	info, err := os.Stat(path)
	testutil.Must(s, err)
	testutil.Equal(s, info.Sys().(*syscall.Stat_t).Uid, 0, "%s belongs to", path)
}
