package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

const (
	// patience bounds each wait of a step, on a machine that may be busy.
	patience = 2 * time.Minute
	// waitLimit is patience for kubectl.
	waitLimit = "--timeout=120s"
)

// command returns a kubectl command in the scene's namespace.
func (s *scene) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.programs.Kubectl, args...)
	// kubectl keeps its cache of the API under the home directory.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.plane.Admin, "HOME="+filepath.Join(s.plane.Dir, "home"))
	if s.namespace != "" {
		cmd.Args = append([]string{cmd.Args[0], "--namespace", s.namespace}, args...)
	}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run runs kubectl and returns what it wrote to stdout; the error has what it wrote to stderr.
func (s *scene) run(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience+30*time.Second)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := s.command(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// kubectl runs a kubectl that must succeed, and returns its output.
func (s *scene) kubectl(args ...string) string {
	s.Helper()
	output, err := s.run(s.Context(), nil, args...)
	testutil.Must(s, err)
	return strings.TrimSpace(output)
}

// apply gives objects to the API server. In the text, SHELL stands for the busybox image, HELLO for the image with the
// HTTP service on port 8080, and NODENAME for the node's name.
func (s *scene) apply(text string) {
	s.Helper()
	_, err := s.run(s.Context(), strings.NewReader(s.expand(text)), "apply", "-f", "-")
	testutil.Must(s, err)
}

// applyPod gives the API server a pod with this spec.
func (s *scene) applyPod(name, spec string) {
	s.Helper()
	s.apply(testutil.PodYAML(name, spec))
}

func (s *scene) expand(text string) string {
	return strings.NewReplacer("SHELL", s.env.Image("test/busybox:latest"), "HELLO", s.env.Image("test/hello:latest"),
		"NODENAME", s.node.name).Replace(text)
}

// ready waits until pods are Ready. what has the arguments of kubectl wait that select them.
func (s *scene) ready(what ...string) {
	s.Helper()
	s.kubectl(append([]string{"wait", "--for=condition=Ready", waitLimit}, what...)...)
}

// pods returns the pods of the namespace that match a label selector. An empty selector matches all.
func (s *scene) pods(label string) []v1.Pod {
	s.Helper()
	list, err := s.core.Pods(s.namespace).List(s.Context(), metav1.ListOptions{LabelSelector: label})
	testutil.Must(s, err)
	return list.Items
}

// pod returns one pod of the namespace.
func (s *scene) pod(name string) *v1.Pod {
	s.Helper()
	pod, err := s.core.Pods(s.namespace).Get(s.Context(), name, metav1.GetOptions{})
	testutil.Must(s, err)
	return pod
}

// until waits until check accepts a pod.
func (s *scene) until(name string, check func(*v1.Pod) error) {
	s.Helper()
	s.eventually("pod "+name, func() error {
		found, err := s.core.Pods(s.namespace).Get(s.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return check(found)
	})
}

// prints waits until kubectl prints this text.
func (s *scene) prints(want string, args ...string) {
	s.Helper()
	s.eventually("kubectl "+strings.Join(args, " "), func() error {
		if got := s.kubectl(args...); got != want {
			return fmt.Errorf("it is %q, want %q", got, want)
		}
		return nil
	})
}

// notRestarted fails the test if the pod's container was restarted.
func (s *scene) notRestarted(name string) {
	s.Helper()
	status, err := container(s.pod(name))
	testutil.Assert(s, err == nil && status.RestartCount == 0, "%s was restarted: %+v, %v", name, status, err)
}

// event waits for an event with this reason about an object.
func (s *scene) event(object, reason string) v1.Event {
	s.Helper()
	var found v1.Event
	s.eventually(fmt.Sprintf("event %s of %s", reason, object), func() error {
		list, err := s.core.Events(s.namespace).List(s.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + object})
		if err != nil {
			return err
		}
		var seen []string
		for _, event := range list.Items {
			if event.Reason == reason {
				found = event
				return nil
			}
			seen = append(seen, event.Reason)
		}
		return fmt.Errorf("the only events are %v", seen)
	})
	return found
}

// eventually repeats check until it returns nil.
func (s *scene) eventually(what string, check func() error) {
	s.Helper()
	testutil.EventuallyWithin(s, patience, what, check)
}

// httpGet reads a page of a pod or of a forwarded port.
func httpGet(ctx context.Context, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return "", err
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return string(body), err
}
