package translate

import (
	"bytes"
	"encoding/json"
	"path"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

const (
	seccompOption     = "seccomp="
	seccompUnconfined = seccompOption + "unconfined"
	// seccompBuiltin is known to all engines that can have the default profile
	// "unconfined", those since API 1.42.
	seccompBuiltin = seccompOption + "builtin"
)

// ReadProfile returns the content of a seccomp profile on the node. It is
// called with an absolute path. ReadProfileFile is one.
type ReadProfile func(path string) ([]byte, error)

// seccomp returns Docker's security options for a profile. The runtime's
// default profile is the engine's, which the node's administrator may have
// replaced with seccomp-profile in daemon.json; but not by none at all.
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

// compactProfile checks that a profile says what happens to a system call that
// it does not name. The engine takes one without default action and system
// calls for no profile at all, and would run the container unconfined.
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
