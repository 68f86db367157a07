package translate

import (
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A container's name is six parts joined with underscores, as with dockershim. The engine therefore refuses a second
// container with the same CRI metadata:
//
//	k8s_POD_<pod>_<namespace>_<uid>_<attempt>          a sandbox
//	k8s_<container>_<pod>_<namespace>_<uid>_<attempt>  a container, with its own attempt
//
// dockershim and cri-dockerd append _<8 hex digits> when the engine has a name reserved for a container that it cannot
// find.
const (
	namePrefix    = "k8s"
	sandboxPart   = "POD"
	nameDelimiter = "_"

	nameParts      = 6
	randomSuffix   = 8
	maxNamePart    = 253
	escapePrefix   = ".X"
	escapeLength   = len(escapePrefix) + 2
	upperHexDigits = "0123456789ABCDEF"
)

// parsedName has the parts of a container's name.
type parsedName struct {
	kind      Kind
	container string
	pod       string
	namespace string
	uid       string
	attempt   uint32
}

// SandboxName returns the name of a pod's sandbox in the engine. For metadata that Kubernetes allows, it is exactly
// dockershim's name. Other bytes are escaped, so that different metadata never have the same name.
func SandboxName(pod *runtimeapi.PodSandboxMetadata) string {
	return joinName(sandboxPart, pod, pod.GetAttempt())
}

// containerName returns the name of a container in the engine, see SandboxName.
func containerName(pod *runtimeapi.PodSandboxMetadata, c *runtimeapi.ContainerMetadata) string {
	part := escapeName(c.GetName())
	if part == sandboxPart {
		part = escapeByte(part[0]) + part[1:]
	}
	return joinName(part, pod, c.GetAttempt())
}

func joinName(part string, pod *runtimeapi.PodSandboxMetadata, attempt uint32) string {
	return strings.Join([]string{
		namePrefix,
		part,
		escapeName(pod.GetName()),
		escapeName(pod.GetNamespace()),
		escapeName(pod.GetUid()),
		strconv.FormatUint(uint64(attempt), 10),
	}, nameDelimiter)
}

// escapeName writes every byte that Docker does not allow in a name, and the delimiter, as .XHH. Kubernetes names have
// no capital letters, so they never change. A name that looks escaped already is escaped once more.
func escapeName(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; !isNameByte(c) || isEscape(s[i:]) {
			b.WriteString(escapeByte(c))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func isNameByte(c byte) bool { return isAlphanumeric(c) || c == '.' || c == '-' }

func escapeByte(c byte) string {
	return escapePrefix + string(upperHexDigits[c>>4]) + string(upperHexDigits[c&15])
}

// isEscape reports whether s begins with an escaped byte.
func isEscape(s string) bool {
	return len(s) >= escapeLength && strings.HasPrefix(s, escapePrefix) &&
		strings.IndexByte(upperHexDigits, s[escapeLength-2]) >= 0 &&
		strings.IndexByte(upperHexDigits, s[escapeLength-1]) >= 0
}

// unescapeName undoes escapeName.
func unescapeName(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if !isEscape(s[i:]) {
			b.WriteByte(s[i])
			continue
		}
		high := strings.IndexByte(upperHexDigits, s[i+escapeLength-2])
		low := strings.IndexByte(upperHexDigits, s[i+escapeLength-1])
		b.WriteByte(byte(high<<4 | low))
		i += escapeLength - 1
	}
	return b.String()
}

// parseName reads a container's name, with or without the slash that the engine puts before it. It returns false for a
// name that is not in dockershim's form.
func parseName(name string) (parsedName, bool) {
	parts := strings.Split(trimName(name), nameDelimiter)
	if len(parts) == nameParts+1 && isRandomSuffix(parts[nameParts]) {
		parts = parts[:nameParts]
	}
	if len(parts) != nameParts || parts[0] != namePrefix {
		return parsedName{}, false
	}
	for _, part := range parts[:nameParts-1] {
		if part == "" {
			return parsedName{}, false
		}
	}
	attempt, err := strconv.ParseUint(parts[nameParts-1], 10, 32)
	if err != nil {
		return parsedName{}, false
	}
	out := parsedName{
		kind:      KindContainer,
		container: unescapeName(parts[1]),
		pod:       unescapeName(parts[2]),
		namespace: unescapeName(parts[3]),
		uid:       unescapeName(parts[4]),
		attempt:   uint32(attempt),
	}
	if parts[1] == sandboxPart {
		out.kind, out.container = KindSandbox, ""
	}
	return out, true
}

func isRandomSuffix(part string) bool {
	return len(part) == randomSuffix && strings.Trim(part, "0123456789abcdef") == ""
}

// checkPodMetadata refuses metadata that does not name a pod. field is the path of the metadata.
func checkPodMetadata(field string, m *runtimeapi.PodSandboxMetadata) error {
	if m == nil {
		return invalid(field, "is missing")
	}
	for _, part := range []struct{ name, value string }{
		{"name", m.GetName()},
		{"namespace", m.GetNamespace()},
		{"uid", m.GetUid()},
	} {
		if err := checkNamePart(field+"."+part.name, part.value); err != nil {
			return err
		}
	}
	return nil
}

func checkContainerMetadata(field string, m *runtimeapi.ContainerMetadata) error {
	if m == nil {
		return invalid(field, "is missing")
	}
	return checkNamePart(field+".name", m.GetName())
}

func checkNamePart(field, value string) error {
	if value == "" {
		return invalid(field, "is empty")
	}
	if len(value) > maxNamePart {
		return invalid(field, "has %d bytes, the most is %d, as in Kubernetes", len(value), maxNamePart)
	}
	return checkText(field, value)
}
