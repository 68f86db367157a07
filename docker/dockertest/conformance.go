package dockertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

// Subject is an engine that the suite checks against the promises of docker.Engine.
type Subject struct {
	Engine docker.Engine
	// Image is the name of an image that the engine has, with busybox in it.
	Image string
	// Pullable is the name of an image in a registry without credentials.
	Pullable string
	// Absent is the name of an image that this registry does not have.
	Absent string
	// Prefix begins the names of everything that the suite makes, so that the suite can share an engine.
	Prefix string
	// Needs skips a test if the named cgroup controllers ("cpu") are missing. It is nil if none can be missing.
	Needs func(t testing.TB, controllers ...string)
}

// Commands of the suite's containers. ConformancePrograms has a Program for each.
const (
	obedientCommand  = `trap 'exit 7' TERM; : > /trapped; while :; do sleep 0.1; done`
	trappedCommand   = `until [ -e /trapped ]; do sleep 0.1; done`
	stubbornCommand  = `trap '' TERM; while :; do sleep 1; done`
	failingCommand   = `exit 3`
	missingProgram   = "/no/such/program"
	talkativeCommand = `echo to stdout; echo to stderr >&2; exit 5`
	longCommand      = `sleep 1000`
)

// ConformancePrograms are the programs with which an Engine passes Conformance
// and ConformanceAbsence.
func ConformancePrograms() []Program {
	return []Program{
		{Command: "sh -c " + obedientCommand, Handles: map[string]int{"SIGTERM": 7}},
		{Command: "sh -c " + stubbornCommand, Ignores: []string{"SIGTERM"}},
		{Command: "sh -c " + failingCommand, Exits: true, ExitCode: 3},
		{Command: "sh -c " + longCommand},
		{Command: "sh -c " + talkativeCommand, Exits: true, ExitCode: 5, Stdout: "to stdout\n", Stderr: "to stderr\n"},
		{Command: missingProgram, Start: errors.New("exec: " + missingProgram + ": no such file or directory")},
		{Command: "cat", Echo: true},
	}
}

// Conformance checks the promises of docker.Engine. It runs on Engine and on the client of a real engine, so that the
// two stay alike.
func Conformance(t *testing.T, subject Subject) {
	s := &suite{Subject: subject}
	for _, scenario := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"Features", testFeatures},
		{"EndedContext", testEndedContext},
		{"Create", testCreate},
		{"Lifecycle", testLifecycle},
		{"LogPath", testLogPath},
		{"StopStubborn", testStopStubborn},
		{"StopGoesOnWithoutItsCaller", testStopAbandoned},
		{"Kill", testKill},
		{"StartFails", testStartFails},
		{"Remove", testRemove},
		{"RemoveConcurrently", testRemoveConcurrently},
		{"Update", testUpdate},
		{"List", testList},
		{"JoinedNamespaces", testJoinedNamespaces},
		{"Pause", testPause},
		{"NoCheckpoint", testNoCheckpoint},
		{"Exec", testExec},
		{"ExecInput", testExecInput},
		{"ExecTTY", testExecTTY},
		{"ExecRefused", testExecRefused},
		{"ExecMissingProgram", testExecMissingProgram},
		{"ExecStreamEndsWithContext", testExecContext},
		{"Attach", testAttach},
		{"AttachTTY", testAttachTTY},
		{"AttachmentEndsWithContext", testAttachContext},
		{"AttachRefused", testAttachRefused},
		{"AttachEnded", testAttachEnded},
		{"Resize", testResize},
		{"EventOrder", testEventOrder},
		{"EventReplay", testEventReplay},
		{"EventsEndWithContext", testEventsContext},
		{"DiedIsExited", testDiedIsExited},
		{"ImageNames", testImageNames},
		{"ImageRefused", testImageRefused},
		{"ImageForceRemoved", testImageForceRemoved},
		{"Load", testLoad},
		{"Save", testSave},
		{"Inherit", testInherit},
		{"ForeignImage", testForeignImage},
		{"Pull", testPull},
	} {
		t.Run(scenario.name, func(t *testing.T) { scenario.run(t, s) })
	}
}

// suite is a subject with helpers that make and remove the objects of a scenario.
type suite struct {
	Subject
	named atomic.Int64
}

// patience bounds each wait of the suite.
const patience = testutil.Patience

// withPatience bounds a call. Cleanups make calls, too, when the test's own context has ended.
func withPatience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// name returns a unique name.
func (s *suite) name() string {
	return fmt.Sprintf("%s-%d", s.Prefix, s.named.Add(1))
}

// shell is a container that runs a command with sh.
func (s *suite) shell(command string) docker.ContainerSpec {
	return docker.ContainerSpec{
		Name: s.name(),
		Config: &api.Config{
			Image:           s.Image,
			Entrypoint:      []string{"sh", "-c"},
			Cmd:             []string{command},
			NetworkDisabled: true,
		},
		Host: &api.HostConfig{NetworkMode: "none", IpcMode: "shareable"},
	}
}

// create makes a container that the test's end removes.
func (s *suite) create(t *testing.T, spec docker.ContainerSpec) string {
	t.Helper()
	id, err := s.Engine.CreateContainer(withPatience(t), spec)
	testutil.Must(t, err, "CreateContainer")
	t.Cleanup(func() { s.discard(t, id) })
	return id
}

// start makes a container and starts it.
func (s *suite) start(t *testing.T, spec docker.ContainerSpec) string {
	t.Helper()
	id := s.create(t, spec)
	testutil.Must(t, s.Engine.StartContainer(withPatience(t), id), "StartContainer")
	return id
}

func (s *suite) discard(t *testing.T, id string) {
	err := s.Engine.RemoveContainer(withPatience(t), id)
	testutil.Assert(t, err == nil || errdefs.IsNotFound(err), "RemoveContainer: %v", err)
}

func (s *suite) inspect(t *testing.T, id string) *api.InspectResponse {
	t.Helper()
	got, err := s.Engine.InspectContainer(withPatience(t), id)
	testutil.Must(t, err, "InspectContainer")
	return got
}

// wantError fails the test unless err has the type.
func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	testutil.Assert(t, errors.Is(err, want), "%s: got error %v, want %v", what, err, want)
}

func testFeatures(t *testing.T, s *suite) {
	features, err := s.Engine.Features(withPatience(t))
	testutil.Must(t, err)
	for name, value := range map[string]string{
		"ServerVersion": features.ServerVersion, "APIVersion": features.APIVersion, "OS": features.OS,
		"Arch":         features.Arch,
		"CgroupDriver": features.CgroupDriver, "StorageDriver": features.StorageDriver, "Root": features.Root,
		"DefaultRuntime": features.DefaultRuntime, "Runtimes": strings.Join(features.Runtimes, ","),
	} {
		testutil.Assert(t, value != "", "Features.%s is empty", name)
	}
	testutil.Assert(t, features.CgroupVersion == 1 || features.CgroupVersion == 2,
		"Features.CgroupVersion is %d", features.CgroupVersion)
	testutil.Assert(t, features.Supports("1.41"), "Features.APIVersion is %s, below 1.41", features.APIVersion)
	testutil.Check(t, s.Engine.Ping(withPatience(t)), "Ping")
}

func testEndedContext(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	id := s.create(t, s.shell(longCommand))
	_, createErr := s.Engine.CreateContainer(ctx, s.shell(longCommand))
	_, listErr := s.Engine.ListContainers(ctx, nil)
	_, imagesErr := s.Engine.ListImages(ctx)
	_, inspectErr := s.Engine.InspectContainer(ctx, id)
	for name, err := range map[string]error{
		"CreateContainer": createErr, "ListContainers": listErr, "ListImages": imagesErr,
		"InspectContainer": inspectErr,
		"Ping":             s.Engine.Ping(ctx),
		"StartContainer":   s.Engine.StartContainer(ctx, id),
		"StopContainer":    s.Engine.StopContainer(ctx, id, time.Second),
		"KillContainer":    s.Engine.KillContainer(ctx, id, "SIGKILL"),
		"RemoveContainer":  s.Engine.RemoveContainer(ctx, id),
		"PullImage":        s.Engine.PullImage(ctx, s.Pullable, docker.PullOptions{}),
		"LoadImage":        s.Engine.LoadImage(ctx, strings.NewReader("")),
		"SaveImage":        s.Engine.SaveImage(ctx, s.Image, io.Discard),
		"Events":           s.Engine.Events(ctx, docker.EventsOptions{Handle: func(docker.Event) {}}),
	} {
		wantError(t, name, err, context.Canceled)
	}
	testutil.Equal(t, s.inspect(t, id).State.Status, api.StateCreated,
		"calls with an ended context had an effect: the container")
}
