package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
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
	testutil.Must(t, err)
	self, err := os.Executable()
	testutil.Must(t, err)
	program := filepath.Join(dir, "criadapter-oci")
	testutil.Must(t,
		os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\n%s=1 exec %s \"$@\"\n", asProgram, self), 0o755))
	r := realEngine{T: t, notes: ocinote.Dir(filepath.Join(dir, "notes")), image: env.Image("test/busybox:latest")}
	runtime := map[string]any{"path": program, "runtimeArgs": []string{"--criadapter-notes", string(r.notes)}}
	testutil.Must(t, r.notes.SaveRuntime(ocinote.Runtime{Path: cmp.Or(env.RuntimeWrapper, "runc")}))
	own := engine.ForTest(t, engine.Options{Env: env,
		Config: map[string]any{"runtimes": map[string]any{"criadapter": runtime}}})
	r.client, err = docker.Dial(docker.Options{Host: own.Host()})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = r.client.Close() })
	testutil.Must(t, r.client.PullImage(t.Context(), r.image, docker.PullOptions{}))
	return r
}

// create creates a container that runs as a user other than root.
func (r realEngine) create() string {
	r.Helper()
	id, err := r.client.CreateContainer(r.Context(), docker.ContainerSpec{
		Config: &container.Config{Image: r.image, User: "1000:1000", Cmd: []string{"sleep", "1000"},
			NetworkDisabled: true},
		Host: &container.HostConfig{
			Runtime: "criadapter", NetworkMode: "none", IpcMode: "none", GroupAdd: []string{"27"},
			CapAdd: []string{"NET_RAW"},
		},
		Network: &network.NetworkingConfig{},
	})
	testutil.Must(r, err)
	return id
}

// run runs a command in a container.
func (r realEngine) run(id string, command ...string) (string, error) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), testutil.Patience)
	defer cancel()
	opts := docker.ExecOptions{Command: command, Stdout: true, Stderr: true, TTY: true}
	execID, err := r.client.CreateExec(ctx, id, opts)
	testutil.Must(r, err)
	stream, err := r.client.AttachExec(ctx, execID, opts)
	if err != nil {
		return "", err
	}
	defer func() { _ = stream.Close() }()
	var out bytes.Buffer
	_, err = io.Copy(&out, stream)
	return strings.ReplaceAll(out.String(), "\r", ""), err
}

// TestRigNoteReachesTheContainer starts a container in the network namespace of another process. It checks that the
// container's process and a command in it get the settings of the note.
func TestRigNoteReachesTheContainer(t *testing.T) {
	r := newRealEngine(t)
	id := r.create()
	err := r.client.StartContainer(t.Context(), id)
	testutil.Require(t, err != nil && strings.Contains(err.Error(), "has no note of criadapter"),
		"without a note it starts with %v", err)
	holder, _ := testutil.StartProcess(t, syscall.CLONE_NEWNET)
	namespace := fmt.Sprintf("/proc/%d/ns/net", holder)
	shm := t.TempDir()
	note := ocinote.Note{
		Namespaces:  map[string]string{"network": namespace},
		Hostname:    "web-0",
		DropSysctls: true,
		Mounts: []ocinote.Mount{
			{Destination: "/dev/shm", Type: "bind", Source: shm, Options: []string{"bind", "rw"}}},
		Process: ocinote.Process{Groups: &[]uint32{4242}, Ambient: []string{"CAP_NET_RAW"}},
	}
	testutil.Must(t, r.notes.Save(id, note))
	for range 2 { // the second start edits anew
		testutil.Must(t, r.client.StartContainer(t.Context(), id))
		r.look(id, namespace)
		testutil.Must(t, r.client.StopContainer(t.Context(), id, 0))
	}
	testutil.Must(t, r.client.RemoveContainer(t.Context(), id))
}

func (r realEngine) look(id, netnsPath string) {
	r.Helper()
	inspect, err := r.client.InspectContainer(r.Context(), id)
	testutil.Must(r, err)
	namespace, err := os.Stat(netnsPath)
	own, ownErr := os.Stat(fmt.Sprintf("/proc/%d/ns/net", inspect.State.Pid))
	testutil.Assert(r, err == nil && ownErr == nil && os.SameFile(namespace, own),
		"the container is not in the namespace of the note: %v, %v", err, ownErr)
	status := map[string]string{"Groups:": "1000 4242", "CapAmb:": "0000000000002000"}
	inside := testutil.ReadFile(r, fmt.Sprintf("/proc/%d/status", inspect.State.Pid))
	command, err := r.run(id, "sh", "-c", "cat /proc/self/status; hostname; grep ' /dev/shm ' /proc/mounts")
	testutil.Must(r, err)
	for who, text := range map[string]string{"the process": inside, "a command": command} {
		for field, want := range status {
			testutil.Assert(r, hasField(text, field, want), "%s has not %s %s:\n%s", who, field, want, text)
		}
	}
	for _, want := range []string{"\nweb-0\n", " /dev/shm "} {
		testutil.Assert(r, strings.Contains(command, want), "a command does not see %q:\n%s", want, command)
	}
}

func hasField(text, field, want string) bool {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == field &&
			strings.Join(fields[1:], " ") == want {
			return true
		}
	}
	return false
}
