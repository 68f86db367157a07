package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// shellPod is a pod with a shell that waits.
const shellPod = `
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: SHELL, command: [sleep, "3600"]}
  - {name: other, image: SHELL, command: [sh, -c, "echo from the other; sleep 3600"]}
`

func logs(s *scene) {
	s.apply(shellPod + `
---
apiVersion: v1
kind: Pod
metadata: {name: counter}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "for i in $(seq 2000); do echo line $i; done; until [ -e /end ]; do sleep 0.1; done; echo last"]
`)
	s.ready("pod/counter")
	// Following ends with the container, and has everything.
	var all []string
	var group errgroup.Group
	group.Go(func() error {
		output, err := s.run(s.Context(), nil, "logs", "--follow", "counter")
		all = strings.Split(strings.TrimSpace(output), "\n")
		return err
	})
	s.kubectl("exec", "counter", "--", "touch", "/end")
	testutil.Must(s, group.Wait())
	if len(all) != 2001 || all[0] != "line 1" || all[1999] != "line 2000" || all[2000] != "last" {
		s.Errorf("%d lines followed, from %q to %q", len(all), all[0], all[len(all)-1])
	}
	testutil.Equal(s, s.kubectl("logs", "--tail=2", "counter"), "line 2000\nlast", "the last two lines")
	testutil.Equal(s, s.kubectl("logs", "--since=1h", "--limit-bytes=6", "counter"), "line 1", "six bytes")
	stamp, line, _ := strings.Cut(s.kubectl("logs", "--timestamps", "--tail=1", "counter"), " ")
	testutil.Assert(s, line == "last" && strings.HasPrefix(stamp, "20"), "with a time stamp: %q %q", stamp, line)
	s.ready("pod/shell")
	s.prints("from the other", "logs", "shell", "-c", "other")
	_, err := s.run(s.Context(), nil, "logs", "--previous", "shell", "-c", "other")
	testutil.Assert(s, err != nil, "logs --previous succeeds for a container without an earlier attempt")
}

func execAndCopy(s *scene) {
	s.apply(shellPod)
	s.ready("pod/shell")
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	cmd := s.command(ctx, "exec", "shell", "-c", "main", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	err := cmd.Run()
	testutil.Assert(s, errors.As(err, &exit) && exit.ExitCode() == 7, "ended with %v, want exit code 7", err)
	testutil.Assert(s, stdout.String() == "out\n" && strings.HasPrefix(stderr.String(), "err\n"),
		"stdout %q, stderr %q", stdout.String(), stderr.String())
	much := strings.Repeat("0123456789abcdef", 1<<16)
	got, err := s.run(s.Context(), strings.NewReader(much), "exec", "-i", "shell", "-c", "main", "--", "cat")
	testutil.Assert(s, err == nil && got == much, "%d bytes came back as %d, %v", len(much), len(got), err)
	from, to := filepath.Join(s.plane.Dir, s.namespace+".from"), filepath.Join(s.plane.Dir, s.namespace+".to")
	testutil.Must(s, os.WriteFile(from, []byte(much), 0o600))
	s.kubectl("cp", from, "shell:/tmp/there", "-c", "main")
	s.kubectl("cp", "shell:/tmp/there", to, "-c", "main")
	if got, err := os.ReadFile(to); err != nil || string(got) != much {
		s.Errorf("%d bytes copied there and back are %d, %v", len(much), len(got), err)
	}
	_, err = s.run(s.Context(), nil, "exec", "shell", "-c", "main", "--", "/no/such/program")
	testutil.Assert(s, err != nil, "a program that is not there was run")
}

func attach(s *scene) {
	s.applyPod("listener", `
  restartPolicy: Never
  containers:
  - {name: main, image: SHELL, stdin: true, stdinOnce: true, command: [sh, -c, "read line; echo heard $line"]}
`)
	s.ready("pod/listener")
	got, err := s.run(s.Context(), strings.NewReader("a word\n"), "attach", "-i", "listener")
	testutil.Assert(s, err == nil && strings.Contains(got, "heard a word"), "attached: %q, %v", got, err)
	s.until("listener", func(pod *v1.Pod) error {
		if pod.Status.Phase != v1.PodSucceeded {
			return fmt.Errorf("phase %s", pod.Status.Phase)
		}
		return nil
	})
}

// runShortCommands runs commands that end while kubectl attaches. kubectl must return with their output and exit code.
// It prints the log before it attaches, so the output may come twice.
func runShortCommands(s *scene) {
	const commands, atOnce = 50, 5
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range commands {
		group.Go(func() error {
			testutil.Check(s, s.runShortCommand(i, i%2 == 0))
			return nil
		})
	}
	_ = group.Wait() // each call has reported its own error
}

// tooLate is in criadapter's error for a container that ends between the kubelet's check and the attach.
const tooLate = "is exited, it must be running"

// runShortCommand calls `kubectl run`, either with input that does not end or without input.
func (s *scene) runShortCommand(number int, withInput bool) error {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	line, code := fmt.Sprintf("line %d", number), number%3
	args := []string{"run", fmt.Sprintf("short-%d", number), "--image=" + s.env.Image("test/busybox:latest"),
		"--restart=Never", "--attach"}
	var input *os.File
	if withInput {
		ours, theirs, err := os.Pipe()
		if err != nil {
			return err
		}
		defer theirs.Close()
		defer ours.Close()
		input, args = ours, append(args, "--stdin")
	}
	script := fmt.Sprintf("echo %s; sleep 0.%03d; exit %d", line, number%21, code)
	cmd := s.command(ctx, append(args, "--command", "--", "sh", "-c", script)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if input != nil {
		cmd.Stdin = input
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: hung; stdout %q, stderr %q", line, stdout.String(), stderr.String())
	case err != nil && !errors.As(err, &exit), cmd.ProcessState.ExitCode() != code:
		return fmt.Errorf("%s: %v, want exit code %d; stderr %q", line, err, code, stderr.String())
	case !strings.Contains(stdout.String(), line+"\n"):
		return fmt.Errorf("%s: stdout %q, stderr %q", line, stdout.String(), stderr.String())
	case s.world.kind == realKubelet && strings.Contains(stderr.String(), "Internal error") &&
		!strings.Contains(stderr.String(), tooLate):
		return fmt.Errorf("%s: stdout %q, stderr %q", line, stdout.String(), stderr.String())
	}
	return nil
}

// An ephemeral container may be privileged in a pod whose own containers are not.
func debugPrivileged(s *scene) {
	s.apply(shellPod)
	s.ready("pod/shell")
	s.kubectl("debug", "shell", "--profile=sysadmin", "--image="+s.env.Image("test/busybox:latest"),
		"--container=debugger",
		"--", "sh", "-c", "grep CapEff /proc/self/status; sleep 3600")
	const sysAdmin = 21 // CAP_SYS_ADMIN
	s.eventually("the debugger's capabilities", func() error {
		text, err := s.run(s.Context(), nil, "logs", "shell", "-c", "debugger")
		if err != nil {
			return err
		}
		var set uint64
		if _, err := fmt.Sscanf(text, "CapEff: %x", &set); err != nil || set&(1<<sysAdmin) == 0 {
			return fmt.Errorf("it says %q, %v", text, err)
		}
		return nil
	})
}

func portForward(s *scene) {
	s.apply(web(1))
	s.kubectl("rollout", "status", "deployment/web", waitLimit)
	ctx, cancel := context.WithCancel(s.Context())
	cmd := s.command(ctx, "port-forward", "deployment/web", ":8080", "--address", "127.0.0.1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	testutil.Must(s, err)
	testutil.Must(s, cmd.Start())
	s.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		s.Fatalf("port-forward: %v: %s", err, stderr.String())
	}
	// Forwarding from 127.0.0.1:34567 -> 8080
	_, rest, _ := strings.Cut(line, "from ")
	address, _, found := strings.Cut(rest, " ")
	testutil.Require(s, found, "port-forward says %q", line)
	want := "hello from " + s.pods("app=web")[0].Name + "\n"
	for range 3 {
		got, err := httpGet(s.Context(), address)
		testutil.Assert(s, err == nil && got == want, "through %s: %q, %v", address, got, err)
	}
}

// figures reads the pages of a node that a metrics server reads. kubectl top shows figures from these pages.
func figures(s *scene) {
	s.apply(shellPod)
	s.ready("pod/shell")
	base := "/api/v1/nodes/" + s.node.name + "/proxy/"
	s.eventually("the pod's figures", func() error {
		var summary struct {
			Node struct {
				Memory struct{ WorkingSetBytes uint64 }
				CPU    struct{ UsageCoreNanoSeconds uint64 }
			}
			Pods []struct {
				PodRef     struct{ Name, Namespace string }
				Containers []struct {
					Name   string
					Memory struct{ WorkingSetBytes uint64 }
					CPU    struct{ UsageCoreNanoSeconds uint64 }
				}
			}
		}
		if err := json.Unmarshal([]byte(s.kubectl("get", "--raw", base+"stats/summary")), &summary); err != nil {
			return err
		}
		if summary.Node.Memory.WorkingSetBytes == 0 || summary.Node.CPU.UsageCoreNanoSeconds == 0 {
			return fmt.Errorf("the node has %+v", summary.Node)
		}
		for _, pod := range summary.Pods {
			if pod.PodRef.Name != "shell" || pod.PodRef.Namespace != s.namespace {
				continue
			}
			for _, container := range pod.Containers {
				if container.Memory.WorkingSetBytes == 0 || container.CPU.UsageCoreNanoSeconds == 0 {
					return fmt.Errorf("%+v", container)
				}
			}
			if len(pod.Containers) == 2 {
				return nil
			}
			return fmt.Errorf("%d containers", len(pod.Containers))
		}
		return errors.New("the pod is not there")
	})
	metrics := s.kubectl("get", "--raw", base+"metrics/resource")
	for _, name := range []string{"container_memory_working_set_bytes", "container_cpu_usage_seconds_total"} {
		for _, container := range []string{"main", "other"} {
			if want := name + `{container="` + container + `",namespace="` + s.namespace +
				`",pod="shell"}`; !strings.Contains(metrics, want) {
				s.Errorf("metrics/resource lacks %s", want)
			}
		}
	}
	testutil.Assert(s, strings.Contains(metrics, "node_memory_working_set_bytes"),
		"metrics/resource lacks the node's memory")
}
