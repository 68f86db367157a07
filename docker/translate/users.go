package translate

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/ocinote"
)

// Users are the ids that a pod's user namespace maps. The first one is root's.
type Users struct {
	UIDs, GIDs ocinote.IDMapping
}

// PodUsers returns the ids that a pod's user namespace maps, nil if the pod uses the node's. Sandbox or
// WithoutContainer must have accepted the configuration.
func PodUsers(config *runtimeapi.PodSandboxConfig) *Users {
	options := podNamespaces(config).GetUsernsOptions()
	if options.GetMode() != runtimeapi.NamespaceMode_POD || len(options.GetUids()) != 1 || len(options.GetGids()) != 1 {
		return nil
	}
	return &Users{UIDs: mapping(options.GetUids()[0]), GIDs: mapping(options.GetGids()[0])}
}

func mapping(m *runtimeapi.IDMapping) ocinote.IDMapping {
	return ocinote.IDMapping{ContainerID: m.GetContainerId(), HostID: m.GetHostId(), Size: m.GetLength()}
}

// checkPodUsers refuses user namespaces that a pod cannot have.
func checkPodUsers(field string, in SandboxInput, more *extra) error {
	ns := podNamespaces(in.Config)
	options := ns.GetUsernsOptions()
	if err := checkUserMode(field, options); err != nil || options.GetMode() != runtimeapi.NamespaceMode_POD ||
		options == nil {
		return err
	}
	if err := more.canMap(field, in.PublishPorts); err != nil {
		return err
	}
	if err := checkMapping(field+".uids", options.GetUids()); err != nil {
		return err
	}
	if err := checkMapping(field+".gids", options.GetGids()); err != nil {
		return err
	}
	if kind := nodeNamespace(ns); kind != "" {
		return invalid(field,
			"a pod with the node's %s namespace cannot have a user namespace of its own: its root would have no "+
				"rights there", kind)
	}
	return nil
}

// nodeNamespace returns the first field of a NamespaceOption that asks for the node's namespace, empty for none.
func nodeNamespace(ns *runtimeapi.NamespaceOption) string {
	switch runtimeapi.NamespaceMode_NODE {
	case ns.GetNetwork():
		return "network"
	case ns.GetPid():
		return "pid"
	case ns.GetIpc():
		return "ipc"
	}
	return ""
}

// checkOwnUsers refuses the node's namespaces for a container whose pod has a user namespace of its own.
func checkOwnUsers(field string, ns *runtimeapi.NamespaceOption, sandbox SandboxRef) error {
	if kind := nodeNamespace(ns); kind != "" && PodUsers(sandbox.Config) != nil {
		return invalid(field+"."+kind,
			"the pod has a user namespace of its own, and its root has no rights in the node's %s namespace", kind)
	}
	return nil
}

// checkUserMode refuses a mode that user namespaces do not have, and mappings with another mode than POD.
func checkUserMode(field string, options *runtimeapi.UserNamespace) error {
	switch {
	case options == nil, options.GetMode() == runtimeapi.NamespaceMode_POD:
		return nil
	case options.GetMode() != runtimeapi.NamespaceMode_NODE:
		return invalid(field+".mode", "%s is not a mode of user namespaces", options.GetMode())
	case len(options.GetUids()) > 0 || len(options.GetGids()) > 0:
		return invalid(field, "mappings go with the mode POD only")
	}
	return nil
}

// checkMapping accepts exactly one mapping, which must begin with root. The kubelet sends one.
func checkMapping(field string, mappings []*runtimeapi.IDMapping) error {
	if len(mappings) != 1 || mappings[0] == nil {
		return invalid(field, "has %d mappings, give one", len(mappings))
	}
	m := mappings[0]
	switch {
	case m.GetContainerId() != 0:
		return invalid(field+"[0].container_id", "is %d, the mapping must begin with root's, 0", m.GetContainerId())
	case m.GetLength() == 0:
		return invalid(field+"[0].length", "is 0, the mapping must have at least one id")
	case uint64(m.GetHostId())+uint64(m.GetLength()) > math.MaxUint32:
		return invalid(field+"[0].length", "%d ids from %d on go beyond the largest id", m.GetLength(), m.GetHostId())
	}
	return nil
}

// canMap refuses user namespaces that have not been proven to work on this engine, or that this runtime cannot join.
func (e *extra) canMap(field string, bridge bool) error {
	if _, err := e.need(field, "a user namespace of the pod's own"); err != nil {
		return err
	}
	if e.features.RunsPodSandboxes(e.runtime) {
		return unsupported(field, "the runtime %q runs the pod in a sandbox of its own, which joins no user namespace",
			e.runtime)
	}
	if r := e.features.OCIRuntime; !r.UserNamespaces {
		return unsupported(field, "user namespaces do not work here (see docs/oci-runtime.md): %s", r.NoUserNamespaces)
	}
	if bridge {
		return unsupported(field,
			"with --network-plugin=bridge the engine makes the pod's network namespace, which its user namespace "+
				"does not own")
	}
	return nil
}

// joinUsers has the container join its pod's user namespace. Docker's sysctls need no note here: they are already set
// in the namespaces that the user namespace owns.
func joinUsers(field string, options *runtimeapi.UserNamespace, sandbox SandboxRef, more *extra) error {
	if err := checkUserMode(field, options); err != nil {
		return err
	}
	users := PodUsers(sandbox.Config)
	own := options.GetMode() == runtimeapi.NamespaceMode_POD && options != nil
	switch {
	case users == nil && own:
		if err := more.canMap(field, false); err != nil {
			return err
		}
		return invalid(field, "the pod has the node's user namespace, which its containers share: use NODE")
	case users == nil:
		return nil
	case options != nil && !own:
		return invalid(field, "the pod has a user namespace of its own, which its containers share: use POD")
	case own && !users.equal(options.GetUids(), options.GetGids()):
		return invalid(field, "the mappings differ from the pod's")
	}
	return more.joinUsers(field, sandbox.UserNamespace, *users)
}

func (e *extra) joinUsers(field, path string, users Users) error {
	if path == "" { // without a path the runtime would make another namespace
		return fmt.Errorf(
			"%s: the record of the pod is lost, and with it the path of its user namespace: run a new pod sandbox: %w",
			field, errdefs.ErrFailedPrecondition)
	}
	if err := e.join(field, "user", path); err != nil {
		return err
	}
	e.note.UIDMappings, e.note.GIDMappings = []ocinote.IDMapping{users.UIDs}, []ocinote.IDMapping{users.GIDs}
	return nil
}

// equal reports whether the mappings are equal to the pod's.
func (u Users) equal(uids, gids []*runtimeapi.IDMapping) bool {
	return len(uids) == 1 && len(gids) == 1 && mapping(uids[0]) == u.UIDs && mapping(gids[0]) == u.GIDs
}

// mapMount maps the owners of a mount's files into the pod's user namespace, if the mount asks for it or is an image.
// The owners of an image's files are users of the container.
func mapMount(field string, m *runtimeapi.Mount, target string, in ContainerInput, more *extra) error {
	users := PodUsers(in.Sandbox.Config)
	if users != nil && m.GetPropagation() == runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL {
		return invalid(field+".propagation",
			"a pod with a user namespace of its own cannot pass mounts on to the node: use another mode than "+
				"PROPAGATION_BIDIRECTIONAL")
	}
	uids, gids := m.GetUidMappings(), m.GetGidMappings()
	asks := len(uids) > 0 || len(gids) > 0
	if !asks && (users == nil || m.GetImage().GetImage() == "") {
		return nil
	}
	if asks && (users == nil || !users.equal(uids, gids)) {
		part := ".gidMappings"
		if len(uids) > 0 {
			part = ".uidMappings"
		}
		return unsupported(field+part, "a mount can have only the mappings of its pod's user namespace")
	}
	note, err := more.need(field+".uidMappings", "a mount with owners of its own")
	if err == nil {
		note.MappedMounts = append(note.MappedMounts, target)
	}
	return err
}

const pingGroups = "net.ipv4.ping_group_range"

// limitPing returns a ping_group_range of all groups that the pod's user namespace maps. It returns an empty value for
// a pod that sets this sysctl itself or uses the node's user namespace.
func limitPing(config *runtimeapi.PodSandboxConfig) string {
	users := PodUsers(config)
	if _, named := config.GetLinux().GetSysctls()[pingGroups]; users == nil || named {
		return ""
	}
	return strings.Join([]string{"0", strconv.FormatUint(min(uint64(users.GIDs.Size)-1, math.MaxInt32), 10)}, " ")
}

// InUserNamespace has the sandbox container of a pod join the user namespace that is pinned at path. The engine makes
// the other namespaces of the pod inside it.
func InUserNamespace(
	spec docker.ContainerSpec, config *runtimeapi.PodSandboxConfig, users Users, path string, features docker.Features,
) (docker.ContainerSpec, error) {
	more := &extra{features: features, runtime: spec.Host.Runtime, note: spec.Note}
	if err := more.joinUsers("config.linux.security_context.namespace_options.userns_options", path,
		users); err != nil {
		return spec, err
	}
	if value := limitPing(config); value != "" {
		more.note.Sysctls = map[string]string{pingGroups: value}
	}
	spec.Note = more.note
	return spec, nil
}
