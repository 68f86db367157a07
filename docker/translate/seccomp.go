package translate

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

const (
	// apiSeccomp is the API version since which the engine takes whole profiles (Docker Engine 23).
	apiSeccomp        = "1.42"
	seccompOption     = "seccomp="
	seccompUnconfined = seccompOption + "unconfined"
	// seccompBuiltin selects the engine's own profile. Engines since API 1.42 accept it, and only these can have the
	// default profile "unconfined".
	seccompBuiltin = seccompOption + "builtin"
)

// ReadProfile returns the content of a seccomp profile on the node. It is called with an absolute path. ReadProfileFile
// implements it.
type ReadProfile func(path string) ([]byte, error)

// seccomp returns Docker's security options for a profile. The runtime's default profile is the engine's. The node's
// administrator may replace it with seccomp-profile in daemon.json, but "unconfined" has no effect on pods.
func (p profile) seccomp(read ReadProfile, f docker.Features) ([]string, error) {
	switch p.kind {
	case runtimeapi.SecurityProfile_Unconfined:
		return []string{seccompUnconfined}, nil
	case runtimeapi.SecurityProfile_Localhost:
	default:
		if f.SeccompProfile == "unconfined" {
			return []string{seccompBuiltin}, nil
		}
		return nil, nil
	}
	if !f.Seccomp {
		return nil, unsupported(p.field, "the engine has no seccomp")
	}
	if !path.IsAbs(p.localhost) {
		return nil, invalid(p.field, "%q is not an absolute path", p.localhost)
	}
	if read == nil {
		return nil, unsupported(p.field, "profiles on the node cannot be read here")
	}
	content, err := read(p.localhost)
	if err != nil {
		return nil, invalid(p.field, "cannot read the profile: %v", err)
	}
	compact, err := compactProfile(content)
	if err != nil {
		return nil, invalid(p.field, "%s: %v", p.localhost, err)
	}
	return []string{seccompOption + compact}, nil
}

// compactProfile checks that a profile has a default action, for system calls that it does not name. The engine treats
// a profile without default action and system calls as no profile, and would run the container unconfined.
func compactProfile(content []byte) (string, error) {
	var head struct {
		DefaultAction string `json:"defaultAction"`
	}
	if err := json.Unmarshal(content, &head); err != nil {
		return "", err
	}
	if head.DefaultAction == "" {
		return "", errdefs.ErrInvalidArgument.WithMessage("the profile has no defaultAction")
	}
	var out bytes.Buffer
	if err := json.Compact(&out, content); err != nil {
		return "", err
	}
	return out.String(), nil
}

// flattened has the fields that Docker Engine 20.10 drops from a profile, and that the note restores. The engine drops
// the field flags, too. The note does not restore flags, because runc 1.1 starts no container with that field.
var flattened = []string{"defaultErrnoRet", "listenerPath", "listenerMetadata"}

// completeSeccomp puts the fields that an older engine leaves out into the note. Without notes the container gets the
// profile without these fields.
func completeSeccomp(field string, options []string, more *extra) error {
	i := slices.IndexFunc(options, func(option string) bool { return strings.HasPrefix(option, seccompOption+"{") })
	if i < 0 || !more.offered() || more.features.Supports(apiSeccomp) {
		return nil
	}
	var profile map[string]json.RawMessage
	if err := json.Unmarshal([]byte(strings.TrimPrefix(options[i], seccompOption)), &profile); err != nil {
		return invalid(field, "%v", err)
	}
	maps.DeleteFunc(profile, func(name string, _ json.RawMessage) bool { return !slices.Contains(flattened, name) })
	if len(profile) == 0 {
		return nil
	}
	note, err := more.need(field, "the whole profile")
	if err == nil {
		note.Seccomp = profile
	}
	return err
}
