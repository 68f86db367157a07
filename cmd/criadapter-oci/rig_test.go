package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// realEngine is an engine that has the program as a runtime.
type realEngine struct {
	*testing.T
	client *docker.Client
	notes  ocinote.Dir
	image  string
}

func newRealEngine(t *testing.T) realEngine {
	t.Helper()
	env := rigenv.Require(t)
	dir, err := os.MkdirTemp(env.WorkDir, "oci")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "criadapter-oci")
	if err := os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\n%s=1 exec %s \"$@\"\n", asProgram, self), 0o755); err != nil {
		t.Fatal(err)
	}
	r := realEngine{T: t, notes: ocinote.Dir(filepath.Join(dir, "notes")), image: env.Image("test/busybox:latest")}
	runtime := map[string]any{"path": program, "runtimeArgs": []string{"--criadapter-notes", string(r.notes)}}
	own, err := engine.New(engine.Options{
		Dir: filepath.Join(dir, "e"), Env: env,
		Config: map[string]any{"runtimes": map[string]any{"criadapter": runtime}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	real := env.RuntimeWrapper
	if real == "" {
		real = "runc"
	}
	if err := r.notes.SaveRuntime(ocinote.Runtime{Path: real}); err != nil {
		t.Fatal(err)
	}
	if err := own.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.client, err = docker.Dial(docker.Options{Host: own.Host()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.client.Close() })
	if err := r.client.PullImage(t.Context(), r.image, docker.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	return r
}

// create makes a container of a user that is not root.
func (r realEngine) create() string {
	r.Helper()
	id, err := r.client.CreateContainer(r.Context(), docker.ContainerSpec{
		Config: &container.Config{Image: r.image, User: "1000:1000", Cmd: []string{"sleep", "1000"}, NetworkDisabled: true},
		Host: &container.HostConfig{
			Runtime: "criadapter", NetworkMode: "none", IpcMode: "none", GroupAdd: []string{"27"}, CapAdd: []string{"NET_RAW"},
		},
		Network: &network.NetworkingConfig{},
	})
	if err != nil {
		r.Fatal(err)
	}
	return id
}

// run runs a command in a container.
func (r realEngine) run(id string, command ...string) (string, error) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	opts := docker.ExecOptions{Command: command, Stdout: true, Stderr: true, TTY: true}
	execID, err := r.client.CreateExec(ctx, id, opts)
	if err != nil {
		r.Fatal(err)
	}
	stream, err := r.client.AttachExec(ctx, execID, opts)
	if err != nil {
		return "", err
	}
	defer func() { _ = stream.Close() }()
	var out bytes.Buffer
	_, err = io.Copy(&out, stream)
	return strings.ReplaceAll(out.String(), "\r", ""), err
}

// TestRigNoteReachesTheContainer starts a container in namespaces that the kernel
// alone holds, and looks at what its process and a command got.
func TestRigNoteReachesTheContainer(t *testing.T) {
	r := newRealEngine(t)
	id := r.create()
	if err := r.client.StartContainer(t.Context(), id); err == nil || !strings.Contains(err.Error(), "has no note of criadapter") {
		t.Fatalf("without a note it starts with %v", err)
	}
	holder := exec.Command("sleep", "1000")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	namespace := fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)
	shm := t.TempDir()
	note := ocinote.Note{
		Namespaces:  map[string]string{"network": namespace},
		Hostname:    "web-0",
		DropSysctls: true,
		Mounts:      []ocinote.Mount{{Destination: "/dev/shm", Type: "bind", Source: shm, Options: []string{"bind", "rw"}}},
		Process:     ocinote.Process{Groups: &[]uint32{4242}, Ambient: []string{"CAP_NET_RAW"}},
	}
	if err := r.notes.Save(id, note); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second start edits anew
		if err := r.client.StartContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		r.look(id, namespace)
		if err := r.client.StopContainer(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.client.RemoveContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

func (r realEngine) look(id, netnsPath string) {
	r.Helper()
	inspect, err := r.client.InspectContainer(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	namespace, err := os.Stat(netnsPath)
	own, ownErr := os.Stat(fmt.Sprintf("/proc/%d/ns/net", inspect.State.Pid))
	if err != nil || ownErr != nil || !os.SameFile(namespace, own) {
		r.Errorf("the container is not in the namespace of the note: %v, %v", err, ownErr)
	}
	status := map[string]string{"Groups:": "1000 4242", "CapAmb:": "0000000000002000"}
	inside, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", inspect.State.Pid))
	if err != nil {
		r.Fatal(err)
	}
	command, err := r.run(id, "sh", "-c", "cat /proc/self/status; hostname; grep ' /dev/shm ' /proc/mounts")
	if err != nil {
		r.Fatal(err)
	}
	for who, text := range map[string]string{"the process": string(inside), "a command": command} {
		for field, want := range status {
			if !hasField(text, field, want) {
				r.Errorf("%s has not %s %s:\n%s", who, field, want, text)
			}
		}
	}
	for _, want := range []string{"\nweb-0\n", " /dev/shm "} {
		if !strings.Contains(command, want) {
			r.Errorf("a command does not see %q:\n%s", want, command)
		}
	}
}

func hasField(text, field, want string) bool {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == field && strings.Join(fields[1:], " ") == want {
			return true
		}
	}
	return false
}
