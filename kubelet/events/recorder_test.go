package events

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestRecorder(t *testing.T) {
	r := New("node")
	pod := &v1.Pod{
		Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "i"}}, Containers: []v1.Container{{Name: "c"}}}}
	pod.Name, pod.Namespace, pod.UID = "pod", "ns", "u"
	r.Record(Event{Pod: pod, Container: "c", Reason: "Started", Message: "m"})
	r.Record(Event{Pod: pod, Container: "i", Warning: true, Reason: "Failed", Message: "m"})
	r.Record(Event{Warning: true, Reason: "InvalidManifest", Message: "m"})
	pod = pod.DeepCopy()
	pod.ResourceVersion = "2" // the pod's status has changed meanwhile
	r.Record(Event{Pod: pod, Container: "c", Reason: "Started", Message: "m"})
	list := r.List()
	testutil.Require(t, len(list) == 3, "%d events", len(list))
	failed, node, started := list[0], list[1], list[2]
	testutil.Assert(t, started.Count == 2 && started.Type == v1.EventTypeNormal &&
		started.InvolvedObject.FieldPath == "spec.containers{c}" && started.InvolvedObject.UID == "u", "repeated: %+v",
		started)
	testutil.Assert(t, failed.Type == v1.EventTypeWarning &&
		failed.InvolvedObject.FieldPath == "spec.initContainers{i}", "event of an init container: %+v", failed)
	testutil.Assert(t, node.InvolvedObject.Kind == "Node" && node.InvolvedObject.Name == "node",
		"event of the node: %+v", node)
	for i := range keep + 10 {
		r.Record(Event{Pod: pod, Reason: "Many", Message: fmt.Sprint(i)})
	}
	list = r.List()
	testutil.Assert(t, len(list) == keep && list[keep-1].Message == fmt.Sprint(keep+9), "%d events are kept", len(list))
}

func TestSink(t *testing.T) {
	r := New("node")
	var got []v1.Event
	r.SetSink(func(e v1.Event) { got = append(got, e) })
	pod := &v1.Pod{}
	pod.Name, pod.Namespace, pod.UID = "pod", "ns", "u"
	r.Record(Event{Pod: pod, Reason: "Pulled", Message: "m"})
	r.Record(Event{Pod: pod, Reason: "Pulled", Message: "m"})
	r.Record(Event{Reason: "NodeReady", Message: "m"})
	testutil.Require(t, len(got) == 3 && got[0].Name != got[1].Name && got[1].Count == 1 && got[0].Namespace == "ns",
		"events %+v", got)
	node := got[2].InvolvedObject
	testutil.Assert(t, node.UID == "node" && node.Kind == "Node", "event of the node: %+v", node)
	r.SetSink(nil)
	r.Record(Event{Reason: "NodeReady", Message: "m"})
	testutil.Assert(t, len(got) == 3, "a sink that was removed is called")
}
