package client

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

func waiting(reason string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
}

func terminated(code int32, reason string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
}

func runs() v1.ContainerState { return v1.ContainerState{Running: &v1.ContainerStateRunning{}} }

func mainStatus(state v1.ContainerState) v1.ContainerStatus {
	return v1.ContainerStatus{Name: "main", State: state, Ready: state.Running != nil, Started: new(true)}
}

func initStatus(state v1.ContainerState) v1.ContainerStatus {
	return v1.ContainerStatus{Name: "init", State: state, Ready: state.Running != nil}
}

// summaryRow is a change to a running pod with one container, and the row that the table then shows.
type summaryRow struct {
	name   string
	change func(*v1.Pod)
	want   string // ready/total status restarts
}

func (r summaryRow) run(t *testing.T) {
	pod := running("a", "web")
	r.change(&pod)
	fields := TableOptions{Now: time.Now()}.row(summarize(&pod))
	testutil.Equal(t, strings.Join([]string{fields[2], fields[3], fields[4]}, " "), r.want, "the row")
}

func TestSummarize(t *testing.T) {
	for _, row := range []summaryRow{
		{"running", func(*v1.Pod) {}, "1/1 Running 0"},
		{"nothing known", func(p *v1.Pod) { p.Status = v1.PodStatus{Phase: v1.PodPending} }, "0/1 Pending 0"},
		{"creating", func(p *v1.Pod) {
			p.Status.ContainerStatuses = []v1.ContainerStatus{mainStatus(waiting("ContainerCreating"))}
		}, "0/1 ContainerCreating 0"},
		{"crash loop", func(p *v1.Pod) {
			s := mainStatus(waiting(model.ReasonCrashLoopBackOff))
			s.RestartCount, s.LastTerminationState = 4, terminated(1, "Error")
			p.Status.ContainerStatuses = []v1.ContainerStatus{s}
		}, "0/1 CrashLoopBackOff 4"},
		{"completed", func(p *v1.Pod) {
			p.Status.ContainerStatuses = []v1.ContainerStatus{mainStatus(terminated(0, "Completed"))}
		}, "0/1 Completed 0"},
		{"no reason", func(p *v1.Pod) {
			p.Status.ContainerStatuses = []v1.ContainerStatus{mainStatus(terminated(5, ""))}
		}, "0/1 ExitCode:5 0"},
		{"one of two completed", func(p *v1.Pod) {
			p.Spec.Containers = append([]v1.Container{{Name: "job"}}, p.Spec.Containers...)
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses,
				v1.ContainerStatus{Name: "job", State: terminated(0, "Completed")})
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		}, "1/2 Running 0"},
		{"one of two failed", func(p *v1.Pod) {
			p.Spec.Containers = append([]v1.Container{{Name: "job"}}, p.Spec.Containers...)
			p.Status.ContainerStatuses = []v1.ContainerStatus{
				{Name: "job", State: terminated(0, "Completed")}, mainStatus(terminated(3, "Error"))}
		}, "0/2 Error 0"},
		{"one of two completed, the other is not ready", func(p *v1.Pod) {
			p.Spec.Containers = append([]v1.Container{{Name: "job"}}, p.Spec.Containers...)
			p.Status.ContainerStatuses[0].Ready = false
			p.Status.ContainerStatuses = append([]v1.ContainerStatus{{Name: "job", State: terminated(0, "Completed")}},
				p.Status.ContainerStatuses...)
		}, "0/2 Completed 0"},
		{"refused", func(p *v1.Pod) {
			p.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted"}
		}, "0/1 Evicted 0"},
		{"going", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, "1/1 Terminating 0"},
		{"ended and deleted", func(p *v1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			p.Status.Phase = v1.PodSucceeded
			p.Status.ContainerStatuses = []v1.ContainerStatus{mainStatus(terminated(0, "Completed"))}
		}, "0/1 Completed 0"},
	} {
		t.Run(row.name, row.run)
	}
}

func TestSummarizeInitContainers(t *testing.T) {
	for _, row := range []summaryRow{
		{"first init container", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "init"}, {Name: "next"}}
			p.Status.InitContainerStatuses = []v1.ContainerStatus{initStatus(runs())}
			p.Status.ContainerStatuses = []v1.ContainerStatus{mainStatus(waiting("PodInitializing"))}
		}, "0/1 Init:0/2 0"},
		{"second init container", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "init"}, {Name: "next"}}
			p.Status.InitContainerStatuses = []v1.ContainerStatus{initStatus(terminated(0, "Completed")),
				{Name: "next", State: waiting("PodInitializing")}}
		}, "0/1 Init:1/2 0"},
		{"failing init container", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "init"}}
			s := initStatus(waiting(model.ReasonCrashLoopBackOff))
			s.RestartCount = 2
			p.Status.InitContainerStatuses = []v1.ContainerStatus{s}
			p.Status.ContainerStatuses = nil
		}, "0/1 Init:CrashLoopBackOff 2"},
		{"init container failed for good", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "init"}}
			p.Status.InitContainerStatuses = []v1.ContainerStatus{initStatus(terminated(4, "Error"))}
		}, "0/1 Init:Error 0"},
		{"restarted init container", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "init"}}
			s := initStatus(terminated(0, "Completed"))
			s.RestartCount = 2
			p.Status.InitContainerStatuses = []v1.ContainerStatus{s}
			p.Status.ContainerStatuses[0].RestartCount = 1
		}, "1/1 Running 1"},
		{"restarting sidecar", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "init", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}
			s := initStatus(waiting(model.ReasonCrashLoopBackOff))
			s.RestartCount = 3
			p.Status.InitContainerStatuses = []v1.ContainerStatus{s}
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodInitialized, Status: v1.ConditionTrue}}
		}, "1/2 Init:CrashLoopBackOff 3"},
		{"failed with a sidecar", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "init", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}
			p.Status.InitContainerStatuses = []v1.ContainerStatus{initStatus(terminated(0, "Completed"))}
			p.Status.ContainerStatuses = []v1.ContainerStatus{mainStatus(terminated(1, "Error"))}
			p.Status.Phase = v1.PodFailed
		}, "0/2 Error 0"},
		{"sidecar", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "init", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}
			s := initStatus(runs())
			s.Started = new(true)
			p.Status.InitContainerStatuses = []v1.ContainerStatus{s}
		}, "2/2 Running 0"},
		{"refused with an init container", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "init"}}
			p.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted"}
		}, "0/1 Evicted 0"},
	} {
		t.Run(row.name, row.run)
	}
}
