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

// endedContainer makes a container in a running pod, runs the cache, and ends the container.
func (n *node) endedContainer(exitCode int) (podID, id string) {
	n.Helper()
	podID, id = n.startContainer("app")
	n.sync()
	n.must(n.engine.Exit(id, exitCode))
	caughtUp()
	return podID, id
}

// keepEnd saves a container in the record of its pod, with its end, as container.Service does.
func (n *node) keepEnd(podID, id string, end *checkpoint.End) {
	n.Helper()
	n.keepEnds(podID, map[string]*checkpoint.End{id: end})
}

// keepEnds saves all containers of a pod in its record.
func (n *node) keepEnds(podID string, ends map[string]*checkpoint.End) {
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
	record.Containers = map[string]checkpoint.Container{}
	for id, end := range ends {
		record.Containers[id] = checkpoint.Container{
			Config: raw, ImageRef: "by-digest", User: &checkpoint.User{UID: 1, GID: 2}, End: end,
		}
	}
	n.records.save(record)
}

// restart restarts the program. It returns the number of inspects until the first relist has ended.
func (n *node) restart() int {
	n.Helper()
	n.stopCache()
	n.newCache()
	before := n.engine.Calls("InspectContainer")
	n.sync()
	return n.engine.Calls("InspectContainer") - before
}

// A start of the program takes the end of a container from its record. It inspects the container if the engine's list
// shows another end.
func TestStartTakesEndsFromRecords(t *testing.T) {
	type testCase struct {
		meanwhile func(n *node, id string)
		inspects  int
		exitCode  int
	}
	onNodes(t, dockertest.Options{}, map[string]testCase{
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
	}, func(n *node, test testCase) {
		podID, id := n.endedContainer(7)
		n.keepEnd(podID, id, EndOf(n.container(id)))
		time.Sleep(time.Second) // lists of the engine may lag behind
		n.stopCache()
		test.meanwhile(n, id)
		testutil.Equal(n, n.restart(), test.inspects+1, "inspects, one of them of the pod's sandbox")
		n.wantEnd(id, test.exitCode)
	})
}

// An entry made from a record equals the entry made from an inspect.
func TestEndInARecordIsWhole(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID, id := n.endedContainer(7)
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

// No field of an end is lost on the way into an entry and back.
func TestEndKeepsEachField(t *testing.T) {
	var end checkpoint.End
	fields := reflect.ValueOf(&end).Elem()
	for i := range fields.NumField() {
		switch field := fields.Field(i); field.Kind() {
		case reflect.String:
			field.SetString(fields.Type().Field(i).Name)
		case reflect.Int:
			field.SetInt(int64(i))
		case reflect.Bool:
			field.SetBool(true)
		default:
			field.Set(reflect.ValueOf(time.Unix(int64(i), 0)))
		}
	}
	entry := fromEnd(t.Context(), "pod", "id", checkpoint.Container{Config: []byte("{}"), End: &end})
	testutil.Assert(t, reflect.DeepEqual(EndOf(entry), &end), "got %+v, want %+v", EndOf(entry), end)
	testutil.Assert(t, fromEnd(t.Context(), "pod", "id", checkpoint.Container{End: &end}) == nil,
		"a record without a configuration gave an entry")
}

// The engine knows more than a record in these cases.
func TestEndThatNeedsAnInspect(t *testing.T) {
	onNodes(t, dockertest.Options{}, map[string]func(*checkpoint.Container){
		"no limits":             func(c *checkpoint.Container) { c.Config = []byte(`{"image": {"image": "a"}}`) },
		"no image":              func(c *checkpoint.Container) { c.Config = []byte(`{"linux": {"resources": {}}}`) },
		"perhaps out of memory": func(c *checkpoint.Container) { c.End.OOMKilled = false },
		"an earlier end":        func(c *checkpoint.Container) { c.End.FinishedAt = time.Unix(0, 0) },
		"another exit code":     func(c *checkpoint.Container) { c.End.ExitCode++ },
		"nothing":               nil,
	}, func(n *node, change func(*checkpoint.Container)) {
		podID, id := n.endedContainer(killedExitCode)
		time.Sleep(time.Second)
		end := EndOf(n.container(id))
		end.OOMKilled = true
		n.keepEnd(podID, id, end)
		record, err := n.records.Load(n.Context(), podID)
		n.must(err)
		want := 1 // the pod's sandbox
		if kept := record.Containers[id]; change != nil {
			change(&kept)
			record.Containers[id] = kept
			want++
		}
		testutil.Equal(n, n.restart(), want, "inspects")
		n.wantEnd(id, killedExitCode)
	})
}

// If a save failed, the cache's entry is from a later run than the record. The engine's list shows the same status for
// the ends of the two runs.
func TestReconnectKeepsTheLaterEnd(t *testing.T) {
	onNode(t, dockertest.Options{}, func(n *node) {
		podID, id := n.endedContainer(7)
		n.keepEnd(podID, id, EndOf(n.container(id)))
		time.Sleep(time.Hour)
		n.start(id)
		n.must(n.engine.Exit(id, 7))
		caughtUp()
		want := n.container(id).Status.FinishedAt
		time.Sleep(80 * time.Hour) // the list says "3 days" for either end
		n.stopCache()
		n.sync() // a new connection of the same cache
		testutil.Equal(n, n.container(id).Status.FinishedAt, want, "the end")
	})
}

// EndOf returns nil for a container that has not ended, or may run again.
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
