package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/debian"
)

// upTime bounds the time until pods are up. It is long, because the machine may be busy with builds.
const upTime = 3 * time.Minute

// containerState has the fields that change only if the container restarts.
type containerState struct {
	Name      string
	StartedAt string
	PID       int
	Running   bool
}

// containers returns all containers of the engine by id, including sandboxes.
func (s *suite) containers(ctx context.Context) (map[string]containerState, error) {
	list, err := s.machine.Shell(ctx, `docker ps --all --quiet --no-trunc 2>/dev/null`)
	if err != nil {
		return nil, err
	}
	found := map[string]containerState{}
	for id := range strings.FieldsSeq(list) {
		if len(id) != 64 {
			continue // not an id, but output of the shell
		}
		text, err := s.machine.Run(ctx, "docker", "inspect", "--format",
			`{"Name":{{json .Name}},"StartedAt":{{json `+
				`.State.StartedAt}},"PID":{{.State.Pid}},"Running":{{.State.Running}}}`, id)
		if err != nil {
			return nil, err
		}
		var state containerState
		if err := json.Unmarshal([]byte(text), &state); err != nil {
			return nil, err
		}
		found[id] = state
	}
	return found, nil
}

// untouched fails unless the containers and their processes are the same as when the pods came up.
func (s *suite) untouched(ctx context.Context) error { return s.same(ctx, s.before) }

// same fails unless the containers and their processes are the same as in before.
func (s *suite) same(ctx context.Context, before map[string]containerState) error {
	now, err := s.containers(ctx)
	if err != nil {
		return err
	}
	if !maps.Equal(now, before) {
		return fmt.Errorf("containers changed:\nbefore %+v\nnow    %+v", before, now)
	}
	return nil
}

// podsUp restarts the service of the kubelet core with two pods, and waits until the pods are ready.
func (s *suite) podsUp(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, `
		docker load --quiet --input /mnt/hello.tar
		cp /mnt/web.yaml /mnt/agent.yaml /etc/kubelet-core/manifests
		systemctl restart kubelet-core`); err != nil {
		return err
	}
	if err := s.eventually(ctx, func() error { return s.ready(ctx, "web", "agent") }); err != nil {
		return err
	}
	var err error
	if s.before, err = s.containers(ctx); err != nil {
		return err
	}
	if len(s.before) != 4 {
		return fmt.Errorf("%d containers of two pods: %v", len(s.before), slices.Collect(maps.Values(s.before)))
	}
	return nil
}

// ready says whether the kubelet core shows the pods as ready, without a restart.
func (s *suite) ready(ctx context.Context, pods ...string) error {
	text, err := s.machine.Run(ctx, "kubelet-core", "get", "pods")
	if err != nil {
		return err
	}
	var errs []error
	for _, pod := range pods {
		ok := slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
			fields := strings.Fields(line)
			return slices.ContainsFunc(fields, func(f string) bool {
				return f == pod || strings.HasPrefix(f, pod+"-")
			}) && slices.Contains(fields, "1/1") && slices.Contains(fields, "0")
		})
		if !ok {
			errs = append(errs, fmt.Errorf("pod %s is not ready:\n%s", pod, text))
		}
	}
	return errors.Join(errs...)
}

func (s *suite) eventually(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, upTime)
	defer cancel()
	return debian.Wait(ctx, check)
}

// asking repeats a Version request at the socket until stop is called. stop returns the number of requests and all
// failures. No request may fail while another process takes over the socket.
func (s *suite) asking(ctx context.Context, socket string) (stop func() (int, error)) {
	ctx, cancel := context.WithCancel(ctx)
	asked, failed := 0, make(chan error, 1)
	go func() {
		var errs []error
		for ctx.Err() == nil {
			asked++
			if out, err := s.machine.Run(ctx, "/mnt/crictl", "--timeout", "60s", "--runtime-endpoint", "unix://"+socket,
				"version"); err != nil && ctx.Err() == nil {
				errs = append(errs, fmt.Errorf("%s: %w", out, err))
			}
		}
		failed <- errors.Join(errs...)
	}()
	return func() (int, error) {
		cancel()
		err := <-failed
		return asked, err
	}
}
