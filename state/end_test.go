package state

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// keepEnd saves a container in the record of its pod, with its end, as container.Service does.
func (n *node) keepEnd(podID, id string, end *checkpoint.End) {
	n.Helper()
	raw, err := protojson.Marshal(&runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
		Image:    &runtimeapi.ImageSpec{Image: testImage},
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{CpuShares: 2}},
	})
	n.must(err)
	record, err := n.records.Load(n.Context(), podID)
	n.must(err)
	record.Containers = map[string]checkpoint.Container{id: {
		Config: raw, ImageRef: "by-digest", User: &checkpoint.User{UID: 1, GID: 2}, End: end,
	}}
	n.records.save(record)
}

// restart is a restart of the program. It returns the number of inspects until the first relist has ended.
func (n *node) restart() int {
	n.Helper()
	n.stopCache()
	n.newCache()
	before := n.engine.Calls("InspectContainer")
	n.sync()
	return n.engine.Calls("InspectContainer") - before
}

// A start of the program takes the end of a container from its record. It asks an engine whose list shows another end.
func TestStartTakesEndsFromRecords(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(n *node, id string)
		inspects  int
		exitCode  int
	}{
		"nothing":     {func(*node, string) {}, 0, 7},
		"a long time": {func(*node, string) { time.Sleep(3 * time.Hour) }, 0, 7},
		"another run with another exit code": {func(n *node, id string) {
			n.start(id)
			n.must(n.engine.Exit(id, 8))
		}, 1, 8},
		"another run with the same exit code": {func(n *node, id string) {
			time.Sleep(time.Hour)
			n.start(id)
			n.must(n.engine.Exit(id, 7))
		}, 1, 7},
		"removed by others": {func(n *node, id string) { n.must(n.engine.RemoveContainer(n.Context(), id)) }, 0, 7},
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, dockertest.Options{}, func(n *node) {
				podID, id := n.startContainer("app")
				n.sync()
				n.must(n.engine.Exit(id, 7))
				caughtUp()
				n.keepEnd(podID, id, EndOf(n.container(id)))
				time.Sleep(time.Second) // lists of the engine may lag behind
				n.stopCache()
				test.meanwhile(n, id)
				testutil.Equal(n, n.restart(), test.inspects+1, "inspects, one of them of the pod's sandbox")
				n.wantEnd(id, test.exitCode)
			})
		})
	}
}

// The entry from a record is the entry from an inspect.
func TestEndInARecordIsWhole(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID, id := n.startContainer("app")
		n.sync()
		n.must(n.engine.Exit(id, 7))
		caughtUp()
		time.Sleep(time.Second)
		end := EndOf(n.container(id))
		n.keepEnd(podID, id, nil)
		testutil.Equal(n, n.restart(), 2, "inspects without the end")
		want := *n.container(id)
		n.keepEnd(podID, id, end)
		testutil.Equal(n, n.restart(), 1, "inspects with the end")
		got := *n.container(id)
		testutil.Assert(n, proto.Equal(got.Meta.Config, want.Meta.Config) &&
			proto.Equal(got.Status.Resources, want.Status.Resources), "got %+v, want %+v", got, want)
		got.Meta.Config, got.Status.Resources = want.Meta.Config, want.Status.Resources
		testutil.Assert(n, reflect.DeepEqual(got, want), "got %+v, want %+v", got, want)
	})
}

// Containers that have no end, or may get another one, keep none.
func TestEndOf(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		status ContainerStatus
		want   bool
	}{
		"created":   {ContainerStatus{}, false},
		"running":   {ContainerStatus{Running: true, StartedAt: now}, false},
		"ended":     {ContainerStatus{StartedAt: now, FinishedAt: now}, true},
		"restarted": {ContainerStatus{StartedAt: now, FinishedAt: now, Restarts: true}, false},
	} {
		testutil.Equal(t, EndOf(&Container{Status: test.status}) != nil, test.want, "%s", name)
	}
}
