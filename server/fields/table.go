package fields

import (
	"slices"

	"github.com/criadapter/criadapter/docker"
)

// verdict is the treatment of a field.
type verdict string

const (
	implemented   verdict = "implemented"
	refused       verdict = "refused"
	notApplicable verdict = "not applicable"
)

// row describes fields with the same treatment.
type row struct {
	// fields are named Message.field.
	fields []string
	is     verdict
	// says is one sentence about the effect of the field here, or why it has none.
	says string
	// refuses says which use of an implemented field is refused, and why. It may be empty.
	refuses string
	// needs is the engine or runtime that supports the field, or that accepts the refused use. It is empty for any, and
	// for a refused field that none supports.
	needs string
	// has reports whether an engine is one that row.needs names. It is nil without row.needs.
	has func(docker.Features) bool
}

// table returns the rows, in the order of docs/fields.md.
func table() []row {
	return slices.Concat(podRows(), containerRows(), mountRows(), securityRows(), resourceRows(), imageRows(),
		requestRows(), checkpointRows(), windowsRows())
}

// of returns the names of fields of one message.
func of(message string, fields ...string) []string {
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = message + "." + field
	}
	return names
}

// Requirements of several rows.
const (
	needsSeccomp  = "an engine with seccomp"
	needsAppArmor = "an engine on a node with AppArmor"
	needsSELinux  = "an engine with `selinux-enabled`"
	needsCDI      = "an engine with CDI: Docker Engine 28.2, or 25 (API 1.44) with `features.cdi` of daemon.json; or the runtime `criadapter-oci`"
	needsRRO      = "API 1.44 (Docker Engine 25) or the runtime `criadapter-oci`, on Linux 5.12 with a runtime that has the mount option `rro` (runc 1.1)"
	needsOCI      = "the runtime `criadapter-oci` ([docs/oci-runtime.md](oci-runtime.md))"
	needsCgroup2  = "a node with cgroup v2"
	needsUsers    = "the runtime `criadapter-oci`, on Linux 6.3 with the kernel's overlay as storage driver ([docs/oci-runtime.md](oci-runtime.md))"
	needsCRIU     = "an engine with `experimental`, CRIU beside it, and a kernel with checkpoints"
)

func hasSeccomp(f docker.Features) bool  { return f.Seccomp }
func hasAppArmor(f docker.Features) bool { return f.AppArmor }
func hasSELinux(f docker.Features) bool  { return f.SELinux }
func hasCDI(f docker.Features) bool      { return f.CDI || hasOCI(f) }
func hasCgroup2(f docker.Features) bool  { return f.CgroupVersion >= 2 }
func hasOCI(f docker.Features) bool      { return f.OCIRuntime.Works() }
func hasUsers(f docker.Features) bool    { return f.OCIRuntime.UserNamespaces }
func hasRRO(f docker.Features) bool {
	return len(f.RecursiveReadOnly) > 0 || f.OCIRuntime.RecursiveReadOnly
}
func hasCRIU(f docker.Features) bool { return f.NoCheckpoint == "" }
