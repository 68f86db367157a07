package cluster

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/criadapter/criadapter/internal/testutil"
)

// objectsChange shows that a running container sees new contents of its config map and secret, and that their values in
// the environment stay.
func objectsChange(s *scene) {
	s.apply(`
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: red}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {word: sesame}
---
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: settings, configMap: {name: settings}}
  - {name: password, secret: {secretName: password}}
  - name: both
    projected: {sources: [{configMap: {name: settings}}, {secret: {name: password}}]}
  containers:
  - name: main
    image: SHELL
    command: [sleep, "3600"]
    env: [{name: COLOUR, valueFrom: {configMapKeyRef: {name: settings, key: colour}}}]
    envFrom: [{secretRef: {name: password}}]
    volumeMounts:
    - {name: settings, mountPath: /settings}
    - {name: password, mountPath: /password}
    - {name: both, mountPath: /both}
`)
	s.ready("pod/reader")
	s.sees("red sesame red sesame", "/settings/colour", "/password/word", "/both/colour", "/both/word")
	s.kubectl("patch", "configmap", "settings", "--patch", `{"data":{"colour":"blue"}}`)
	s.kubectl("patch", "secret", "password", "--patch", `{"stringData":{"word":"swordfish"}}`)
	s.sees("blue swordfish blue swordfish", "/settings/colour", "/password/word", "/both/colour", "/both/word")
	testutil.Equal(s, s.kubectl("exec", "reader", "--", "sh", "-c", "echo $COLOUR $word"), "red sesame",
		"the environment")
	s.notRestarted("reader")
}

// sees waits until files of the container have these words.
func (s *scene) sees(want string, files ...string) {
	s.Helper()
	s.eventually(strings.Join(files, " "), func() error {
		output := s.kubectl("exec", "reader", "--", "sh", "-c",
			"for f in "+strings.Join(files, " ")+"; do cat $f; echo; done")
		if got := strings.Join(strings.Fields(output), " "); got != want {
			return fmt.Errorf("they have %q, want %q", got, want)
		}
		return nil
	})
}

// downwardAndToken shows that a container gets the fields of its pod, and that the API server accepts its token.
func downwardAndToken(s *scene) {
	s.apply(`
apiVersion: v1
kind: Pod
metadata: {name: self, labels: {colour: red}}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: about, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}]
  containers:
  - name: main
    image: SHELL
    command: [sleep, "3600"]
    resources: {limits: {memory: 64Mi}}
    env:
    - {name: MY_NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: LIMIT, valueFrom: {resourceFieldRef: {resource: limits.memory}}}
    volumeMounts: [{name: about, mountPath: /about}]
`)
	s.ready("pod/self")
	pod := s.pod("self")
	want := fmt.Sprintf("%s %s %d", s.node.name, pod.Status.PodIP, 64<<20)
	testutil.Equal(s, s.kubectl("exec", "self", "--", "sh", "-c", "echo $MY_NODE $POD_IP $LIMIT"), want,
		"the environment")
	s.kubectl("label", "pod/self", "--overwrite", "colour=blue")
	s.prints(`colour="blue"`, "exec", "self", "--", "cat", "/about/labels")
	const directory = "/var/run/secrets/kubernetes.io/serviceaccount/"
	testutil.Equal(s, s.kubectl("exec", "self", "--", "cat", directory+"namespace"), s.namespace, "namespace")
	authority, err := os.ReadFile(s.plane.Authority.CAFile)
	testutil.Must(s, err)
	testutil.Equal(s, s.kubectl("exec", "self", "--", "cat", directory+"ca.crt"), strings.TrimSpace(string(authority)),
		"ca.crt")
	s.tokenIsOf(s.kubectl("exec", "self", "--", "cat", directory+"token"), string(pod.UID))
}

// tokenIsOf checks the user that the API server sees for the token, and that the token names the pod.
func (s *scene) tokenIsOf(token, uid string) {
	s.Helper()
	config := filepath.Join(s.plane.Dir, s.namespace+".kubeconfig")
	bare := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":%q,"certificate-authority":%q}}],`+
		`"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],"current-context":"a","users":[{"name":"a","user":{"token":%q}}]}`,
		s.plane.URL, s.plane.Authority.CAFile, token)
	testutil.Must(s, os.WriteFile(config, []byte(bare), 0o600))
	got := s.kubectl("--kubeconfig", config, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
	testutil.Equal(s, got, "system:serviceaccount:"+s.namespace+":default", "the token's user")
	parts := strings.Split(token, ".")
	testutil.Require(s, len(parts) == 3, "the token has %d parts", len(parts))
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	testutil.Must(s, err)
	var claims struct {
		Kubernetes struct{ Pod struct{ UID string } } `json:"kubernetes.io"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.Kubernetes.Pod.UID != uid {
		s.Errorf("the token is bound to pod %q, want %s; %v", claims.Kubernetes.Pod.UID, uid, err)
	}
}

// fileHas checks a file in the node's directory.
func (s *scene) fileHas(name, want string) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.node.server.Dir, name))
	testutil.Assert(s, err == nil && string(text) == want, "%s has %q, %v", name, text, err)
}
