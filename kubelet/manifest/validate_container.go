package manifest

import (
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/kubelet/fieldcheck"
	"github.com/criadapter/criadapter/kubelet/model"
)

// containerCheck collects the errors of a pod's containers.
type containerCheck struct {
	spec *v1.PodSpec
	// static adds errors for mistakes that the API server allows.
	static bool
	names  map[string]bool
	// hostPorts are the host ports of the app containers.
	hostPorts map[string]bool
	errs      field.ErrorList
}

func (c *containerCheck) add(errs ...*field.Error) { c.errs = append(c.errs, errs...) }

// check validates one container.
func (c *containerCheck) check(container *v1.Container, kind model.Kind, at *field.Path) {
	c.add(check(at.Child("name"), container.Name, validation.IsDNS1123Label)...)
	if c.names[container.Name] {
		c.add(field.Duplicate(at.Child("name"), container.Name))
	}
	c.names[container.Name] = true
	if container.Image == "" {
		c.add(field.Required(at.Child("image"), ""))
	}
	if container.Image != strings.TrimSpace(container.Image) {
		c.add(field.Invalid(at.Child("image"), container.Image, "it begins or ends with a space"))
	}
	c.add(
		fieldcheck.OneOf(at.Child("imagePullPolicy"), container.ImagePullPolicy, v1.PullAlways, v1.PullIfNotPresent,
			v1.PullNever)...)
	c.add(
		fieldcheck.OneOf(at.Child("terminationMessagePolicy"), container.TerminationMessagePolicy,
			v1.TerminationMessageReadFile, v1.TerminationMessageFallbackToLogsOnError)...)
	c.ports(container, kind, at.Child("ports"))
	c.env(container, at)
	c.mounts(container, at.Child("volumeMounts"))
	c.add(validateResources(&container.Resources, ofContainers, at.Child("resources"))...)
	c.probes(container, kind, at)
	c.security(container.SecurityContext, at.Child("securityContext"))
	c.restarts(container, at)
}

// restarts validates a container's own restart policy.
func (c *containerCheck) restarts(container *v1.Container, at *field.Path) {
	if container.RestartPolicy != nil {
		c.add(fieldcheck.OneOf(at.Child("restartPolicy"), *container.RestartPolicy, v1.ContainerRestartPolicyAlways,
			v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever)...)
	} else if len(container.RestartPolicyRules) > 0 {
		c.add(field.Required(at.Child("restartPolicy"), "it applies if no rule matches"))
	}
	for i, rule := range container.RestartPolicyRules {
		at := at.Child("restartPolicyRules").Index(i)
		c.add(fieldcheck.OneOf(at.Child("action"), rule.Action, v1.ContainerRestartRuleActionRestart,
			v1.ContainerRestartRuleActionRestartAllContainers)...)
		if rule.ExitCodes == nil {
			c.add(field.Required(at.Child("exitCodes"), ""))
			continue
		}
		c.add(fieldcheck.OneOf(at.Child("exitCodes", "operator"), rule.ExitCodes.Operator,
			v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn)...)
	}
}

// ports validates a container's ports. As in the API server, two app containers may not have the same host port. Within
// one container of any kind, a host port may occur only once.
func (c *containerCheck) ports(container *v1.Container, kind model.Kind, at *field.Path) {
	names, hostPorts := map[string]bool{}, map[string]bool{}
	if kind == model.App {
		hostPorts = c.hostPorts
	}
	for i, port := range container.Ports {
		at := at.Index(i)
		if port.ContainerPort < 1 || port.ContainerPort > 65535 {
			c.add(field.Invalid(at.Child("containerPort"), port.ContainerPort, "it must be between 1 and 65535"))
		}
		if port.HostPort < 0 || port.HostPort > 65535 {
			c.add(field.Invalid(at.Child("hostPort"), port.HostPort, "it must be between 1 and 65535"))
		}
		c.add(fieldcheck.OneOf(at.Child("protocol"), port.Protocol, v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)...)
		if port.Name != "" {
			c.add(
				check(at.Child("name"), port.Name, func(s string) []string { return validation.IsValidPortName(s) })...)
			if names[port.Name] {
				c.add(field.Duplicate(at.Child("name"), port.Name))
			}
			names[port.Name] = true
		}
		if port.HostPort == 0 {
			continue
		}
		key := fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort)
		if hostPorts[key] {
			c.add(field.Duplicate(at.Child("hostPort"), port.HostPort))
		}
		hostPorts[key] = true
		if c.spec.HostNetwork && port.HostPort != port.ContainerPort {
			c.add(field.Invalid(at.Child("hostPort"), port.HostPort, "with hostNetwork it must equal containerPort"))
		}
	}
}

func (c *containerCheck) env(container *v1.Container, at *field.Path) {
	for i, env := range container.Env {
		at := at.Child("env").Index(i)
		c.add(check(at.Child("name"), env.Name, validation.IsRelaxedEnvVarName)...)
		from := env.ValueFrom
		if from == nil {
			continue
		}
		if env.Value != "" {
			c.add(field.Invalid(at.Child("valueFrom"), "", "value is set, too"))
		}
		c.exactlyOne(at.Child("valueFrom"), map[string]bool{
			"fieldRef": from.FieldRef != nil, "resourceFieldRef": from.ResourceFieldRef != nil,
			"configMapKeyRef": from.ConfigMapKeyRef != nil, "secretKeyRef": from.SecretKeyRef != nil,
		})
	}
	for i, from := range container.EnvFrom {
		c.exactlyOne(at.Child("envFrom").Index(i),
			map[string]bool{"configMapRef": from.ConfigMapRef != nil, "secretRef": from.SecretRef != nil})
	}
}

// exactlyOne adds an error unless exactly one of the choices is set.
func (c *containerCheck) exactlyOne(at *field.Path, choices map[string]bool) {
	count := 0
	var names []string
	for name, set := range choices {
		names = append(names, name)
		if set {
			count++
		}
	}
	if count != 1 {
		c.add(field.Invalid(at, count, fmt.Sprintf("set exactly one of %v", slices.Sorted(slices.Values(names)))))
	}
}

func (c *containerCheck) mounts(container *v1.Container, at *field.Path) {
	paths := map[string]bool{}
	for i, mount := range container.VolumeMounts {
		at := at.Index(i)
		if !c.hasVolume(mount.Name) {
			c.add(field.NotFound(at.Child("name"), mount.Name))
		}
		if mount.MountPath == "" {
			c.add(field.Required(at.Child("mountPath"), ""))
		}
		if strings.Contains(mount.MountPath, ":") {
			c.add(field.Invalid(at.Child("mountPath"), mount.MountPath, "it must not contain a colon"))
		}
		place := mount.MountPath
		if c.static {
			place = path.Clean(place)
		}
		if paths[place] {
			c.add(field.Duplicate(at.Child("mountPath"), mount.MountPath))
		}
		paths[place] = true
		if mount.SubPath != "" && mount.SubPathExpr != "" {
			c.add(field.Invalid(at.Child("subPathExpr"), mount.SubPathExpr, "subPath is set, too"))
		}
		for name, sub := range map[string]string{"subPath": mount.SubPath, "subPathExpr": mount.SubPathExpr} {
			if path.IsAbs(sub) {
				c.add(field.Invalid(at.Child(name), sub, "it must be relative to the volume"))
			}
			c.add(fieldcheck.NoBacksteps(at.Child(name), sub)...)
		}
	}
}

func (c *containerCheck) hasVolume(name string) bool {
	return slices.ContainsFunc(c.spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
}

func (c *containerCheck) probes(container *v1.Container, kind model.Kind, at *field.Path) {
	probes := map[string]*v1.Probe{
		"livenessProbe": container.LivenessProbe, "readinessProbe": container.ReadinessProbe,
		"startupProbe": container.StartupProbe,
	}
	for name, probe := range probes {
		if probe == nil {
			continue
		}
		if kind == model.Init {
			c.add(
				field.Forbidden(at.Child(name),
					"an init container can have probes only with restartPolicy Always"))
		}
		c.probe(container, name, probe, at.Child(name))
	}
	if container.Lifecycle == nil {
		return
	}
	if kind == model.Init {
		c.add(
			field.Forbidden(at.Child("lifecycle"),
				"an init container can have hooks only with restartPolicy Always"))
	}
	for name, hook := range map[string]*v1.LifecycleHandler{"postStart": container.Lifecycle.PostStart,
		"preStop": container.Lifecycle.PreStop} {
		if hook == nil {
			continue
		}
		c.exactlyOne(at.Child("lifecycle", name),
			map[string]bool{"exec": hook.Exec != nil, "httpGet": hook.HTTPGet != nil, "sleep": hook.Sleep != nil})
		if hook.HTTPGet != nil {
			c.httpGet(container, hook.HTTPGet, at.Child("lifecycle", name, "httpGet"))
		}
	}
}

// httpGet accepts only the protocol that an API server sets by default.
func (c *containerCheck) httpGet(container *v1.Container, get *v1.HTTPGetAction, at *field.Path) {
	c.port(container, get.Port, at.Child("port"))
	c.add(fieldcheck.OneOf(at.Child("protocol"), ptr.Deref(get.Protocol, v1.HTTPProtocolHTTP1),
		v1.HTTPProtocolHTTP1)...)
}

func (c *containerCheck) probe(container *v1.Container, name string, probe *v1.Probe, at *field.Path) {
	c.exactlyOne(at, map[string]bool{
		"exec": probe.Exec != nil, "httpGet": probe.HTTPGet != nil, "tcpSocket": probe.TCPSocket != nil,
		"grpc": probe.GRPC != nil,
	})
	c.add(fieldcheck.AtLeast(at.Child("initialDelaySeconds"), probe.InitialDelaySeconds, 0)...)
	for field, value := range map[string]int32{
		"timeoutSeconds": probe.TimeoutSeconds, "periodSeconds": probe.PeriodSeconds,
		"successThreshold": probe.SuccessThreshold, "failureThreshold": probe.FailureThreshold,
	} {
		c.add(fieldcheck.AtLeast(at.Child(field), value, 1)...)
	}
	if name != "readinessProbe" && probe.SuccessThreshold != 1 {
		c.add(field.Invalid(at.Child("successThreshold"), probe.SuccessThreshold, "it must be 1"))
	}
	if name == "readinessProbe" && probe.TerminationGracePeriodSeconds != nil {
		c.add(field.Forbidden(at.Child("terminationGracePeriodSeconds"), "a readiness probe ends no container"))
	}
	if probe.Exec != nil && len(probe.Exec.Command) == 0 {
		c.add(field.Required(at.Child("exec", "command"), ""))
	}
	if probe.HTTPGet != nil {
		c.httpGet(container, probe.HTTPGet, at.Child("httpGet"))
		c.add(
			fieldcheck.OneOf(at.Child("httpGet", "scheme"), probe.HTTPGet.Scheme, v1.URISchemeHTTP,
				v1.URISchemeHTTPS)...)
	}
	if probe.TCPSocket != nil {
		c.port(container, probe.TCPSocket.Port, at.Child("tcpSocket", "port"))
	}
	if probe.GRPC != nil {
		c.port(container, intstr.FromInt32(probe.GRPC.Port), at.Child("grpc", "port"))
		c.add(fieldcheck.OneOf(at.Child("grpc", "mode"), ptr.Deref(probe.GRPC.Mode, v1.GRPCProbeModePlaintext),
			v1.GRPCProbeModePlaintext)...)
	}
}

// port validates the port of a probe or a hook. A container may lack a port of that name: then the probe has no result.
func (c *containerCheck) port(container *v1.Container, port intstr.IntOrString, at *field.Path) {
	if port.Type == intstr.String && !c.static {
		c.add(check(at, port.StrVal, validation.IsValidPortName)...)
		return
	}
	if _, err := model.ResolvePort(port, container); err != nil {
		c.add(field.Invalid(at, port.String(), err.Error()))
	}
}

func (c *containerCheck) security(security *v1.SecurityContext, at *field.Path) {
	if security == nil {
		return
	}
	if security.Privileged != nil && *security.Privileged && security.AllowPrivilegeEscalation != nil &&
		!*security.AllowPrivilegeEscalation {
		c.add(field.Invalid(at.Child("allowPrivilegeEscalation"), false, "a privileged container can always escalate"))
	}
	if security.WindowsOptions != nil {
		c.add(field.Forbidden(at.Child("windowsOptions"), "the node runs Linux"))
	}
}
