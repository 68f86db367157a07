package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// honoured lists the supported fields of a pod, one per line, and fields that do not concern a kubelet. [] stands for
// every item of a list, and ** for everything below. CONTAINER stands for the lines of containerFields, PROBE for
// probeFields, and HTTPGET for httpGetFields. Package volumekinds has the fields of volume sources. A field that is set
// but not listed is refused by name: a pod must not run differently from its specification. So ** must not stand for
// fields that a later version of the API may add to.
//
// Both values of seLinuxChangePolicy are supported: they differ for volumes of storage plugins only, which this core
// does not have.
const honoured = `
apiVersion
kind
metadata.**
status.**

spec.containers[].CONTAINER
spec.initContainers[].CONTAINER
spec.ephemeralContainers[].CONTAINER
spec.ephemeralContainers[].targetContainerName
spec.restartPolicy
spec.terminationGracePeriodSeconds
spec.activeDeadlineSeconds
spec.resources.limits.**
spec.resources.requests.**

spec.runtimeClassName
spec.overhead.**
spec.hostname
spec.subdomain
spec.setHostnameAsFQDN
spec.hostnameOverride
spec.hostAliases.**
spec.dnsPolicy
spec.dnsConfig.**
spec.hostNetwork
spec.hostPID
spec.hostIPC
spec.hostUsers
spec.shareProcessNamespace
spec.securityContext.fsGroup
spec.securityContext.fsGroupChangePolicy
spec.securityContext.runAsUser
spec.securityContext.runAsGroup
spec.securityContext.runAsNonRoot
spec.securityContext.supplementalGroups[]
spec.securityContext.supplementalGroupsPolicy
spec.securityContext.seLinuxOptions.**
spec.securityContext.seLinuxChangePolicy
spec.securityContext.seccompProfile.**
spec.securityContext.appArmorProfile.**
spec.securityContext.sysctls[].**

spec.volumes[].name

spec.readinessGates.**
spec.enableServiceLinks
spec.serviceAccountName
spec.serviceAccount
spec.automountServiceAccountToken
spec.imagePullSecrets.**
spec.nodeName
spec.nodeSelector.**
spec.affinity.**
spec.tolerations.**
spec.topologySpreadConstraints.**
spec.schedulerName
spec.schedulingGates.**
spec.schedulingGroup.podGroupName
spec.evictionResponders[].name
spec.evictionResponders[].priority
spec.priority
spec.priorityClassName
spec.preemptionPolicy
spec.os.name
`

const containerFields = `
name
restartPolicy
restartPolicyRules[].**
image
imagePullPolicy
command[]
args[]
workingDir
stdin
stdinOnce
tty
terminationMessagePath
terminationMessagePolicy
ports[].**
env[].name
env[].value
env[].valueFrom.fieldRef.**
env[].valueFrom.resourceFieldRef.**
env[].valueFrom.configMapKeyRef.**
env[].valueFrom.secretKeyRef.**
envFrom[].**
resources.limits.**
resources.requests.**
resizePolicy.**
volumeMounts[].name
volumeMounts[].mountPath
volumeMounts[].readOnly
volumeMounts[].recursiveReadOnly
volumeMounts[].mountPropagation
volumeMounts[].subPath
volumeMounts[].subPathExpr
livenessProbe.PROBE
readinessProbe.PROBE
startupProbe.PROBE
lifecycle.postStart.exec.**
lifecycle.postStart.httpGet.HTTPGET
lifecycle.postStart.sleep.**
lifecycle.preStop.exec.**
lifecycle.preStop.httpGet.HTTPGET
lifecycle.preStop.sleep.**
lifecycle.stopSignal
securityContext.allowPrivilegeEscalation
securityContext.appArmorProfile.**
securityContext.capabilities.**
securityContext.privileged
securityContext.procMount
securityContext.readOnlyRootFilesystem
securityContext.runAsGroup
securityContext.runAsNonRoot
securityContext.runAsUser
securityContext.seLinuxOptions.**
securityContext.seccompProfile.**
`

const probeFields = `
exec.**
httpGet.HTTPGET
tcpSocket.port
tcpSocket.host
grpc.port
grpc.service
grpc.mode
initialDelaySeconds
timeoutSeconds
periodSeconds
successThreshold
failureThreshold
terminationGracePeriodSeconds
`

const httpGetFields = `
path
port
host
scheme
httpHeaders[].**
protocol
`

// honouredFields returns honoured as a set, with the fields of volumes.
func honouredFields() map[string]bool {
	set := map[string]bool{}
	for _, line := range expanded(honoured) {
		set[line] = true
	}
	for _, kind := range volumekinds.Kinds() {
		for _, below := range kind.Honoured {
			set["spec.volumes[]."+kind.Field+"."+below] = true
		}
	}
	return set
}

// expanded returns the lines of a list, with the lines that CONTAINER, PROBE and HTTPGET stand for.
func expanded(list string) []string {
	words := map[string]string{"CONTAINER": containerFields, "PROBE": probeFields, "HTTPGET": httpGetFields}
	var lines []string
	for line := range strings.FieldsSeq(list) {
		word := strings.LastIndex(line, ".") + 1
		below, ok := words[line[word:]]
		if !ok {
			lines = append(lines, line)
			continue
		}
		for _, one := range expanded(below) {
			lines = append(lines, line[:word]+one)
		}
	}
	return lines
}

// refuseFields returns an error for every field of an object that is set and not allowed.
func refuseFields(object any, allowed map[string]bool) field.ErrorList {
	text, err := json.Marshal(object)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	w := fieldWalk{allowed: allowed}
	w.walk("", "", tree)
	return w.refused
}

// fieldWalk visits every field that is set.
type fieldWalk struct {
	allowed map[string]bool
	refused field.ErrorList
}

// walk visits value. pattern is the value's name in the list of allowed fields, and path its name in the pod.
func (w *fieldWalk) walk(pattern, path string, value any) {
	if w.allowed[pattern] || w.covered(pattern) {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 && (pattern == "" || w.leads(pattern)) {
			return
		}
		if !w.leads(pattern) {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			w.walk(join(pattern, key), join(path, key), value[key])
		}
		return
	case []any:
		if !w.leads(pattern) {
			break
		}
		for i, item := range value {
			w.walk(pattern+"[]", path+"["+strconv.Itoa(i)+"]", item)
		}
		return
	}
	w.refused = append(w.refused, field.Forbidden(field.NewPath(path), "the kubelet core cannot honour this field"))
}

// covered reports whether the list has a line with ** for the field or for a field above it.
func (w *fieldWalk) covered(pattern string) bool {
	for end := len(pattern); end > 0; end = strings.LastIndexAny(pattern[:end], ".[") {
		if w.allowed[pattern[:end]+".**"] || w.allowed[strings.TrimSuffix(pattern[:end], "[]")+".**"] {
			return true
		}
	}
	return false
}

// leads reports whether the list has pattern or a field below it.
func (w *fieldWalk) leads(pattern string) bool {
	if pattern == "" {
		return true
	}
	for line := range w.allowed {
		if rest, ok := strings.CutPrefix(line, pattern); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return fmt.Sprintf("%s.%s", path, key)
}
