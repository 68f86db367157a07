package client

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// WriteDescription writes the details of a pod as kubectl does: its containers with their states, its volumes and
// conditions, and its events.
func WriteDescription(out io.Writer, pod *v1.Pod, events []v1.Event, now time.Time) error {
	d := &description{out: out, now: now}
	d.head(pod)
	if len(pod.Spec.InitContainers) > 0 {
		d.line(0, "Init Containers", "")
	}
	for i := range pod.Spec.InitContainers {
		d.container(pod, &pod.Spec.InitContainers[i])
	}
	d.line(0, "Containers", "")
	for i := range pod.Spec.Containers {
		d.container(pod, &pod.Spec.Containers[i])
	}
	d.conditions(pod)
	d.volumes(pod)
	d.events(pod, events)
	return d.err
}

// description writes labelled lines. After an error it writes nothing more.
type description struct {
	out io.Writer
	now time.Time
	err error
}

// labelWidth is the width of a label with its indent.
const labelWidth = 20

func (d *description) line(indent int, label, value string) {
	text := strings.Repeat("  ", indent) + label + ":"
	if value != "" {
		text = fmt.Sprintf("%-*s %s", labelWidth-1, text, value)
	}
	d.plain(text)
}

func (d *description) plain(text string) {
	if d.err == nil {
		_, d.err = fmt.Fprintln(d.out, text)
	}
}

// list writes values below each other, with the label before the first.
func (d *description) list(indent int, label string, values []string) {
	if len(values) == 0 {
		values = []string{"<none>"}
	}
	d.line(indent, label, values[0])
	for _, value := range values[1:] {
		d.plain(strings.Repeat(" ", labelWidth) + value)
	}
}

// optional writes the line if there is a value.
func (d *description) optional(indent int, label, value string) {
	if value != "" {
		d.line(indent, label, value)
	}
}

func (d *description) head(pod *v1.Pod) {
	d.line(0, "Name", pod.Name)
	d.line(0, "Namespace", pod.Namespace)
	d.line(0, "UID", string(pod.UID))
	d.optional(0, "Manifest", pod.Annotations[model.AnnotationManifest])
	d.line(0, "Node", strings.TrimSuffix(pod.Spec.NodeName+"/"+pod.Status.HostIP, "/"))
	if pod.Status.StartTime != nil {
		d.line(0, "Start Time", when(*pod.Status.StartTime))
	}
	d.list(0, "Labels", pairs(pod.Labels, ""))
	d.list(0, "Annotations", pairs(pod.Annotations, "kubernetes.io/config."))
	d.line(0, "Status", summarize(pod).status)
	d.optional(0, "Reason", pod.Status.Reason)
	d.optional(0, "Message", pod.Status.Message)
	d.line(0, "QoS Class", string(model.QOS(pod)))
	var ips []string
	for _, ip := range pod.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	d.line(0, "IPs", orNone(strings.Join(ips, ", ")))
}

// pairs returns key=value, sorted by key. It leaves out keys that begin with skip, and the manifest, which has its own
// line.
func pairs(values map[string]string, skip string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if key != model.AnnotationManifest && (skip == "" || !strings.HasPrefix(key, skip)) {
			out = append(out, key+"="+values[key])
		}
	}
	return out
}

func when(t metav1.Time) string { return t.Format(time.RFC1123Z) }

func (d *description) container(pod *v1.Pod, c *v1.Container) {
	status := containerStatus(pod, c.Name)
	d.line(1, c.Name, "")
	d.line(2, "Container ID", orNone(status.ContainerID))
	d.line(2, "Image", c.Image)
	d.line(2, "Image ID", orNone(status.ImageID))
	for _, port := range c.Ports {
		text := fmt.Sprintf("%d/%s", port.ContainerPort, port.Protocol)
		if port.HostPort != 0 {
			text += fmt.Sprintf(" on the host's port %d", port.HostPort)
		}
		d.line(2, "Port", text)
	}
	d.optional(2, "Command", strings.Join(c.Command, " "))
	d.optional(2, "Args", strings.Join(c.Args, " "))
	d.state("State", status.State)
	if status.LastTerminationState != (v1.ContainerState{}) {
		d.state("Last State", status.LastTerminationState)
	}
	d.line(2, "Ready", fmt.Sprint(status.Ready))
	d.line(2, "Restart Count", fmt.Sprint(status.RestartCount))
	if model.IsSidecar(c) {
		d.line(2, "Restart Policy", "Always (sidecar)")
	}
	d.resources("Limits", c.Resources.Limits)
	d.resources("Requests", c.Resources.Requests)
	d.probe("Liveness", c.LivenessProbe)
	d.probe("Readiness", c.ReadinessProbe)
	d.probe("Startup", c.StartupProbe)
	d.list(2, "Environment", environment(c))
	d.list(2, "Mounts", mounts(c))
}

func (d *description) state(label string, state v1.ContainerState) {
	switch {
	case state.Running != nil:
		d.line(2, label, "Running")
		d.line(3, "Started", when(state.Running.StartedAt))
	case state.Terminated != nil:
		d.line(2, label, "Terminated")
		d.optional(3, "Reason", state.Terminated.Reason)
		d.optional(3, "Message", state.Terminated.Message)
		d.line(3, "Exit Code", fmt.Sprint(state.Terminated.ExitCode))
		d.line(3, "Started", when(state.Terminated.StartedAt))
		d.line(3, "Finished", when(state.Terminated.FinishedAt))
	default:
		d.line(2, label, "Waiting")
		if state.Waiting != nil {
			d.optional(3, "Reason", state.Waiting.Reason)
			d.optional(3, "Message", state.Waiting.Message)
		}
	}
}

func (d *description) resources(label string, list v1.ResourceList) {
	var values []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		amount := list[name]
		values = append(values, string(name)+"="+amount.String())
	}
	d.optional(2, label, strings.Join(values, ", "))
}

func (d *description) probe(label string, probe *v1.Probe) {
	if probe == nil {
		return
	}
	d.line(2, label, fmt.Sprintf("%s delay=%ds timeout=%ds period=%ds #success=%d #failure=%d",
		handler(&probe.ProbeHandler),
		probe.InitialDelaySeconds, probe.TimeoutSeconds, probe.PeriodSeconds, probe.SuccessThreshold,
		probe.FailureThreshold))
}

func handler(h *v1.ProbeHandler) string {
	switch {
	case h.Exec != nil:
		return "exec " + fmt.Sprint(h.Exec.Command)
	case h.HTTPGet != nil:
		return fmt.Sprintf("http-get %s://%s:%s%s", strings.ToLower(string(h.HTTPGet.Scheme)), h.HTTPGet.Host,
			h.HTTPGet.Port.String(), h.HTTPGet.Path)
	case h.TCPSocket != nil:
		return fmt.Sprintf("tcp-socket %s:%s", h.TCPSocket.Host, h.TCPSocket.Port.String())
	case h.GRPC != nil:
		return fmt.Sprintf("grpc :%d", h.GRPC.Port)
	default:
		return "unknown"
	}
}

// environment lists the variables. For a value of a config map or secret it shows only the source.
func environment(c *v1.Container) []string {
	var out []string
	for _, from := range c.EnvFrom {
		switch {
		case from.ConfigMapRef != nil:
			out = append(out, from.Prefix+"* from config map "+from.ConfigMapRef.Name)
		case from.SecretRef != nil:
			out = append(out, from.Prefix+"* from secret "+from.SecretRef.Name)
		}
	}
	for _, variable := range c.Env {
		out = append(out, variable.Name+"="+valueText(&variable))
	}
	return out
}

func valueText(variable *v1.EnvVar) string {
	from := variable.ValueFrom
	switch {
	case from == nil:
		return variable.Value
	case from.FieldRef != nil:
		return "<" + from.FieldRef.FieldPath + ">"
	case from.ResourceFieldRef != nil:
		return "<" + from.ResourceFieldRef.Resource + ">"
	case from.ConfigMapKeyRef != nil:
		return fmt.Sprintf("<key %s of config map %s>", from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Name)
	case from.SecretKeyRef != nil:
		return fmt.Sprintf("<key %s of secret %s>", from.SecretKeyRef.Key, from.SecretKeyRef.Name)
	default:
		return "<unknown>"
	}
}

func mounts(c *v1.Container) []string {
	var out []string
	for _, mount := range c.VolumeMounts {
		text := mount.MountPath + " from " + mount.Name
		if part := mount.SubPath + mount.SubPathExpr; part != "" {
			text += "/" + part
		}
		if mount.ReadOnly {
			text += " (ro)"
		}
		out = append(out, text)
	}
	return out
}

func (d *description) conditions(pod *v1.Pod) {
	d.line(0, "Conditions", "")
	var table columns
	rows := [][]string{{"  Type", "Status", "Reason", "Message"}}
	for _, condition := range pod.Status.Conditions {
		rows = append(rows,
			[]string{"  " + string(condition.Type), string(condition.Status), orNone(condition.Reason),
				condition.Message})
	}
	if d.err == nil {
		d.err = table.write(d.out, rows...)
	}
}

func (d *description) volumes(pod *v1.Pod) {
	d.line(0, "Volumes", "")
	for i := range pod.Spec.Volumes {
		d.line(1, pod.Spec.Volumes[i].Name, volumekinds.Describe(&pod.Spec.Volumes[i].VolumeSource))
	}
}

func (d *description) events(pod *v1.Pod, events []v1.Event) {
	rows := [][]string{{"  Type", "Reason", "Age", "Message"}}
	for i := range events {
		event := &events[i]
		if event.InvolvedObject.UID != pod.UID {
			continue
		}
		lastSeen := age(d.now, event.LastTimestamp.Time)
		if event.Count > 1 {
			lastSeen = fmt.Sprintf("%s (x%d over %s)", lastSeen, event.Count, age(d.now, event.FirstTimestamp.Time))
		}
		rows = append(rows, []string{"  " + event.Type, event.Reason, lastSeen, event.Message})
	}
	if len(rows) == 1 {
		d.line(0, "Events", "<none>")
		return
	}
	d.line(0, "Events", "")
	var table columns
	if d.err == nil {
		d.err = table.write(d.out, rows...)
	}
}
