package translate

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

// APIImageMount is the API version since which the engine mounts images by itself.
const APIImageMount = "1.48"

// HostFiles are the host's paths of a pod's own files. Each is mounted into the pod's containers, unless a container
// has a mount of its own at that place. An empty path is not mounted.
type HostFiles struct {
	ResolvConf string
	Hosts      string
	Hostname   string
}

// HostSource is a path on the host that a container mounts.
type HostSource struct {
	// Field is the path of the request's field that names Path, for messages.
	Field string
	Path  string
}

// ImageVolume is a mount of an image, or of a part of one.
type ImageVolume struct {
	// Index is the mount's index in the configuration. Field is the path of the mount's field, for messages.
	Index int
	Field string
	// Image is the id or name of the image. SubPath is the mounted part of it, empty for all.
	Image, SubPath string
}

// ImageVolumes lists the images that a container mounts. Before the create, the caller finds each of them and puts its
// source into ContainerInput.ImageSources.
func ImageVolumes(config *runtimeapi.ContainerConfig) []ImageVolume {
	var out []ImageVolume
	for i, m := range config.GetMounts() {
		if m.GetImage() != nil {
			out = append(out,
				ImageVolume{Index: i, Field: item(mountsField, i), Image: m.GetImage().GetImage(),
					SubPath: m.GetImageSubPath()})
		}
	}
	return out
}

// ImageSource is the source of an image volume's files.
type ImageSource struct {
	// ID is the image's id.
	ID string
	// Path is the host's path of the files. If it is empty, the engine mounts the whole image, which it supports since
	// APIImageMount.
	Path string
}

// HostSources lists the paths that a container mounts from the host. If a path is missing, the engine refuses some
// kinds of mounts and creates the path for others. So the caller creates missing paths before the create.
func HostSources(config *runtimeapi.ContainerConfig) []HostSource {
	var out []HostSource
	for i, m := range config.GetMounts() {
		if m.GetHostPath() != "" {
			out = append(out, HostSource{Field: item(mountsField, i) + ".host_path", Path: m.GetHostPath()})
		}
	}
	return out
}

const mountsField = "config.mounts"

// SELinux relabelling as in the modes of Docker's binds.
const (
	relabelNone    = ""
	relabelPrivate = "Z"
	relabelShared  = "z"
)

// bind is one mount of a host's path, or of an image.
type bind struct {
	field       string
	source      string
	target      string
	readOnly    bool
	recursive   bool // the engine makes submounts read-only, too
	propagation mount.Propagation
	relabel     string
	// image is the id of an image that the engine mounts. The bind has no source then.
	image string
}

// mounts sets the container's mounts: its own mounts, and the pod's files.
func mounts(in ContainerInput, host *container.HostConfig, more *extra) error {
	if unlabelled(host) {
		in.Features.SELinux = false // so nothing is relabelled
	}
	last := lastMounts(in.Config.GetMounts())
	for i, m := range in.Config.GetMounts() {
		into := more
		covered := last[cleanTarget(m.GetContainerPath())] != i
		if covered {
			into = more.blank() // a hidden mount is checked like the others, and then left out
		}
		b, err := newMount(i, m, in, into)
		if err != nil {
			return err
		}
		if err := mapMount(b.field, m, b.target, in, into); err != nil {
			return err
		}
		if covered {
			continue
		}
		if err := b.addTo(host, in.Features); err != nil {
			return err
		}
	}
	for _, b := range append(in.Files.binds(in), shm(in, host)...) {
		if _, taken := last[b.target]; taken {
			continue
		}
		if err := b.addTo(host, in.Features); err != nil {
			return err
		}
	}
	return nil
}

// lastMounts returns the index of the last mount at each place in the container. As with containerd, that mount hides
// the earlier ones. The engine would refuse a container with several mounts at one place. A kubelet sends two mounts
// for `/data` and `/data/`, or for a volume at the container's termination message.
func lastMounts(all []*runtimeapi.Mount) map[string]int {
	last := make(map[string]int, len(all))
	for i, m := range all {
		last[cleanTarget(m.GetContainerPath())] = i
	}
	return last
}

func newMount(index int, m *runtimeapi.Mount, in ContainerInput, more *extra) (bind, error) {
	field := item(mountsField, index)
	if m == nil {
		return bind{}, invalid(field, "is missing")
	}
	if err := checkMountSource(field, m); err != nil {
		return bind{}, err
	}
	b, err := newBindOrImage(index, field, m, in, more)
	if err != nil {
		return bind{}, err
	}
	return b, mountOptions(field+".mount_options", m.GetMountOptions(), b.target, more)
}

func newBindOrImage(index int, field string, m *runtimeapi.Mount, in ContainerInput, more *extra) (bind, error) {
	if m.GetImage() != nil {
		return newImageMount(field, m, in.ImageSources[index], in.Features)
	}
	return newBind(field, m, in, more)
}

// newImageMount returns the mount of an image. It is always read-only, and recursively so, because nothing is mounted
// below an image.
func newImageMount(field string, m *runtimeapi.Mount, source ImageSource, f docker.Features) (bind, error) {
	target, err := mountTarget(field+".container_path", m.GetContainerPath())
	if err != nil {
		return bind{}, err
	}
	if _, err := runtimeName(field+".image.runtime_handler", m.GetImage().GetRuntimeHandler(), f); err != nil {
		return bind{}, err
	}
	if m.GetPropagation() != runtimeapi.MountPropagation_PROPAGATION_PRIVATE {
		return bind{}, invalid(field+".propagation", "%s makes no sense for an image, nothing is mounted below it",
			m.GetPropagation())
	}
	if source.ID == "" {
		return bind{}, unsupported(field+".image", "image volumes are not offered here")
	}
	b := bind{field: field, source: source.Path, target: target, readOnly: true}
	if source.Path == "" {
		b.image = source.ID
	} else if f.SELinux {
		b.relabel = relabelShared // all containers that mount the image read the same files
	}
	return b, nil
}

func newBind(field string, m *runtimeapi.Mount, in ContainerInput, more *extra) (bind, error) {
	source, err := absolutePath(field+".host_path", m.GetHostPath())
	if err != nil {
		return bind{}, err
	}
	target, err := mountTarget(field+".container_path", m.GetContainerPath())
	if err != nil {
		return bind{}, err
	}
	b := bind{field: field, source: source, target: target, readOnly: m.GetReadonly()}
	switch m.GetPropagation() {
	case runtimeapi.MountPropagation_PROPAGATION_PRIVATE:
		// The request names no propagation, because Docker's default is rprivate. For sources above or below Docker's
		// own directory, Docker refuses an explicit rprivate, and its default is rslave.
	case runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER:
		b.propagation = mount.PropagationRSlave
	case runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL:
		b.propagation = mount.PropagationRShared
	default:
		return bind{}, invalid(field+".propagation", "%d is not a propagation mode", m.GetPropagation())
	}
	// All confined containers of a pod have the SELinux level of its sandbox container, so a private label shuts none
	// of them out.
	if m.GetSelinuxRelabel() && in.Features.SELinux {
		b.relabel = relabelPrivate
	}
	if m.GetRecursiveReadOnly() {
		if err := b.makeRecursive(m, in, more); err != nil {
			return bind{}, err
		}
	}
	return b, nil
}

// checkMountSource refuses fields that contradict each other about the mount's source.
func checkMountSource(field string, m *runtimeapi.Mount) error {
	switch {
	case m.GetImage() != nil && m.GetHostPath() != "":
		return invalid(field+".image", "excludes host_path, give one of them")
	case m.GetImage() != nil && m.GetImage().GetImage() == "":
		return invalid(field+".image.image", "is missing")
	case m.GetImage() == nil && m.GetImageSubPath() != "":
		return invalid(field+".image_sub_path", "goes with an image only")
	case m.GetImageSubPath() != "" && !filepath.IsLocal(m.GetImageSubPath()):
		return invalid(field+".image_sub_path", "%q must be a relative path that stays in the image",
			m.GetImageSubPath())
	}
	return nil
}

// makeRecursive applies the CRI text on recursive_read_only. The engine supports such mounts since
// APIRecursiveReadOnly, and the OCI runtime with any engine.
func (b *bind) makeRecursive(m *runtimeapi.Mount, in ContainerInput, more *extra) error {
	field := b.field + ".recursive_read_only"
	if !m.GetReadonly() {
		return invalid(field, "needs readonly")
	}
	if m.GetPropagation() != runtimeapi.MountPropagation_PROPAGATION_PRIVATE {
		return invalid(field, "needs private propagation")
	}
	f := in.Features
	byEngine := f.Supports(docker.APIRecursiveReadOnly) && slices.Contains(f.RecursiveReadOnly, more.runtime)
	if byEngine && b.relabel == relabelNone {
		b.recursive = true
		return nil
	}
	seen := f.OCIRuntime.RecursiveReadOnly && (byEngine || more.runtime == f.DefaultRuntime)
	if more.offered() && seen {
		return more.mountOptions(field, b.target, recursiveOption)
	}
	if byEngine {
		return unsupported(b.field+".selinux_relabel",
			"Docker cannot relabel a mount that must be read-only recursively; the OCI runtime criadapter-oci can")
	}
	if !f.Supports(docker.APIRecursiveReadOnly) {
		return unsupported(field,
			"needs Docker Engine 25 or newer (API %s) or the OCI runtime criadapter-oci, this is %s (API %s)",
			docker.APIRecursiveReadOnly, f.ServerVersion, f.APIVersion)
	}
	return unsupported(field,
		"needs Linux 5.12 and a runtime that lists the mount option rro (runc 1.1), the runtime %s here does not",
		more.runtime)
}

// recursiveOption is the OCI runtime's mount option for a mount that is read-only with all mounts below it.
const recursiveOption = "rro"

// moveRecursive moves recursive read-only mounts from the engine's request to the container's note, if the container
// has one. The engine refuses them for a runtime whose features it does not know, such as a shim. Nothing may be added
// to the note afterwards.
func moveRecursive(host *container.HostConfig, more *extra) error {
	if more.note == nil {
		return nil
	}
	for _, m := range host.Mounts {
		options := m.BindOptions
		if options == nil || !options.ReadOnlyForceRecursive {
			continue
		}
		if !more.features.OCIRuntime.RecursiveReadOnly {
			return unsupported(mountsField,
				"%s must be read-only recursively and the container needs the OCI runtime criadapter-oci: "+
					"a test container has not shown that both work together here (see docs/oci-runtime.md)", m.Target)
		}
		options.ReadOnlyForceRecursive, options.ReadOnlyNonRecursive = false, true
		if err := more.mountOptions(mountsField, m.Target, recursiveOption); err != nil {
			return err
		}
	}
	return nil
}

// mountTarget returns the absolute form of a container path, as dockershim does. It refuses the root.
func mountTarget(field, name string) (string, error) {
	if err := checkPath(field, name); err != nil {
		return "", err
	}
	target := cleanTarget(name)
	if target == "/" {
		return "", invalid(field, "%q is the container's root, mount below it", name)
	}
	return target, nil
}

// cleanTarget returns the place in the container that a container path means.
func cleanTarget(name string) string { return path.Clean("/" + name) }

// addTo adds the mount to a host configuration, as an entry of Mounts if possible. Such a mount fails if its source is
// missing, and keeps submounts writable below a read-only mount. Only an entry of Binds can relabel its source.
func (b bind) addTo(host *container.HostConfig, f docker.Features) error {
	if b.relabel != relabelNone {
		return b.addBindTo(host)
	}
	if b.image != "" {
		host.Mounts = append(host.Mounts,
			mount.Mount{Type: mount.TypeImage, Source: b.image, Target: b.target, ReadOnly: true})
		return nil
	}
	options := &mount.BindOptions{Propagation: b.propagation}
	if b.readOnly && f.Supports(docker.APIRecursiveReadOnly) {
		options.ReadOnlyNonRecursive = !b.recursive
		options.ReadOnlyForceRecursive = b.recursive
	}
	if b.recursive {
		options.Propagation = mount.PropagationRPrivate
	}
	host.Mounts = append(host.Mounts, mount.Mount{
		Type:        mount.TypeBind,
		Source:      b.source,
		Target:      b.target,
		ReadOnly:    b.readOnly,
		BindOptions: options,
	})
	return nil
}

// addBindTo adds the mount as "source:target:modes".
func (b bind) addBindTo(host *container.HostConfig) error {
	if strings.Contains(b.source+b.target, ":") {
		return unsupported(b.field+".selinux_relabel", "Docker cannot relabel a mount with a colon in its paths")
	}
	modes := []string{"rw", b.relabel}
	if b.readOnly {
		modes[0] = "ro"
	}
	if b.propagation != "" {
		modes = append(modes, string(b.propagation))
	}
	host.Binds = append(host.Binds, b.source+":"+b.target+":"+strings.Join(modes, ","))
	return nil
}

// binds returns the mounts of the pod's files.
func (h HostFiles) binds(in ContainerInput) []bind {
	relabel := relabelNone
	if in.Features.SELinux {
		// All containers of the pod read the files, each with a label of its own.
		relabel = relabelShared
	}
	var out []bind
	for _, file := range []struct{ source, target string }{
		{h.ResolvConf, "/etc/resolv.conf"},
		{h.Hosts, "/etc/hosts"},
		{h.Hostname, "/etc/hostname"},
	} {
		if file.source == "" {
			continue
		}
		out = append(out, bind{
			field:    "the pod's " + file.target,
			source:   file.source,
			target:   file.target,
			readOnly: in.Config.GetLinux().GetSecurityContext().GetReadonlyRootfs(),
			relabel:  relabel,
		})
	}
	return out
}
