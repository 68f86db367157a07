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

// upTime bounds the time until pods are up, on a machine that builds other things meanwhile.
const upTime = 3 * time.Minute

// containerState must not change without a restart of the container.
type containerState struct {
	Name      string
	StartedAt string
	PID       int
	Running   bool
}

// containers asks the engine for all containers, sandboxes as well, by id.
func (s *suite) containers(ctx context.Context) (map[string]containerState, error) {
	list, err := s.machine.Shell(ctx, `docker ps --all --quiet --no-trunc 2>/dev/null`)
	if err != nil {
		return nil, err
	}
	found := map[string]containerState{}
	for id := range strings.FieldsSeq(list) {
		if len(id) != 64 {
			continue // the shell's own words
		}
		text, err := s.machine.Run(ctx, "docker", "inspect", "--format",
			`{"Name":{{json .Name}},"StartedAt":{{json .State.StartedAt}},"PID":{{.State.Pid}},"Running":{{.State.Running}}}`, id)
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

// untouched fails unless the containers are the first ones, each with its process.
func (s *suite) untouched(ctx context.Context) error {
	now, err := s.containers(ctx)
	if err != nil {
		return err
	}
	if !maps.Equal(now, s.before) {
		return fmt.Errorf("containers changed:\nbefore %+v\nnow    %+v", s.before, now)
	}
	return nil
}

// podsUp starts the kubelet core of the package as a service, with two pods, and waits until they are ready.
func (s *suite) podsUp(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, `
		docker load --quiet --input /mnt/hello.tar
		mkdir -p /etc/kubelet-core/manifests
		cp /mnt/web.yaml /mnt/agent.yaml /etc/kubelet-core/manifests
		systemd-run --unit kubelet-core --property Restart=always kubelet-core run --node-ip 192.0.2.1`); err != nil {
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
			return slices.ContainsFunc(fields, func(f string) bool { return f == pod || strings.HasPrefix(f, pod+"-") }) && slices.Contains(fields, "1/1") && slices.Contains(fields, "0")
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

// asking asks the socket for the version again and again until stop is called, which returns the failures of all. What
// serves it may be another process from one moment to the next, and no request may fail for that.
func (s *suite) asking(ctx context.Context, socket string) (stop func() (int, error)) {
	ctx, cancel := context.WithCancel(ctx)
	asked, failed := 0, make(chan error, 1)
	go func() {
		var errs []error
		for ctx.Err() == nil {
			asked++
			if out, err := s.machine.Run(ctx, "/mnt/crictl", "--timeout", "60s", "--runtime-endpoint", "unix://"+socket, "version"); err != nil && ctx.Err() == nil {
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
