package generate

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// usualShm is the size of /dev/shm that the engine and CRI runtimes give to a container, in bytes.
const usualShm = 64 << 20

// anonymous matches the name that the engine makes for a volume without a name.
var anonymous = regexp.MustCompile(`^[0-9a-f]{64}$`)

// mounts adds the volumes of a container.
func (p *pod) mounts(c *v1.Container, s *source) {
	from := s.container
	sorted := slices.SortedFunc(slices.Values(from.Mounts), func(a, b container.MountPoint) int {
		return strings.Compare(a.Destination, b.Destination)
	})
	for i := range sorted {
		m := &sorted[i]
		added := v1.VolumeMount{MountPath: m.Destination, ReadOnly: !m.RW}
		switch {
		case m.Type == mount.TypeBind:
			added.MountPropagation = propagation(m.Propagation)
			added.Name = p.volume("host", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: m.Source}})
		case m.Type == mount.TypeVolume && m.Driver == "local" && s.volumes[m.Name]["device"] != "":
			device := s.volumes[m.Name]["device"]
			if !isBind(s.volumes[m.Name]["o"]) {
				p.leave(true, c.Name, "the volume %s at %s: the engine mounts its device %s for its containers only",
					m.Name, m.Destination, device)
				continue
			}
			added.Name = p.volume("host", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: device}})
			added.SubPath = subpath(from.HostConfig.Mounts, m.Destination)
			p.bindOptions(c.Name, m.Name, s.volumes[m.Name]["o"], &added)
		case m.Type == mount.TypeVolume && m.Driver == "local" && anonymous.MatchString(m.Name):
			p.leave(true, c.Name, "the files of the anonymous volume at %s: the pod begins with an empty directory",
				m.Destination)
			added.Name = p.volume("anonymous", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
		case m.Type == mount.TypeVolume && m.Driver == "local":
			added.Name, added.SubPath = p.claim(m), subpath(from.HostConfig.Mounts, m.Destination)
		case m.Type == mount.TypeTmpfs:
			added.ReadOnly = false
			added.Name = p.memory(tmpfsSize(from.HostConfig.Mounts, m.Destination))
		default:
			p.leave(true, c.Name, "the %s at %s (driver %q)", m.Type, m.Destination, m.Driver)
			continue
		}
		c.VolumeMounts = append(c.VolumeMounts, added)
	}
	for _, path := range slices.Sorted(maps.Keys(from.HostConfig.Tmpfs)) {
		c.VolumeMounts = append(c.VolumeMounts,
			v1.VolumeMount{Name: p.memory(optionSize(from.HostConfig.Tmpfs[path])), MountPath: path})
	}
	shm := from.HostConfig.ShmSize
	if shm > 0 && shm != usualShm && !from.HostConfig.IpcMode.IsHost() {
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: p.memory(shm), MountPath: "/dev/shm"})
	}
}

// isBind reports whether a volume with these mount options is a directory of the machine.
func isBind(options string) bool {
	list := strings.Split(options, ",")
	return slices.Contains(list, "bind") || slices.Contains(list, "rbind")
}

// bindOptions applies the mount options of a volume that is a directory of the machine.
func (p *pod) bindOptions(container, volume, options string, added *v1.VolumeMount) {
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "bind", "rbind", "rw":
		case "ro":
			added.ReadOnly = true
		default:
			p.leave(true, container, "the option %s of the volume %s", option, volume)
		}
	}
}

// subpath returns the subdirectory of the volume that is mounted at target. It is empty for the whole volume.
func subpath(mounts []mount.Mount, target string) string {
	for _, m := range mounts {
		if m.Target == target && m.VolumeOptions != nil {
			return m.VolumeOptions.Subpath
		}
	}
	return ""
}

func propagation(mode mount.Propagation) *v1.MountPropagationMode {
	switch mode {
	case mount.PropagationShared, mount.PropagationRShared:
		return ptr.To(v1.MountPropagationBidirectional)
	case mount.PropagationSlave, mount.PropagationRSlave:
		return ptr.To(v1.MountPropagationHostToContainer)
	default:
		return nil
	}
}

// volume adds a volume, or finds the same volume of another container. It returns the volume's name.
func (p *pod) volume(kind string, source v1.VolumeSource) string {
	for i := range p.Spec.Volumes {
		known := &p.Spec.Volumes[i]
		if source.HostPath != nil && known.HostPath != nil && *known.HostPath == *source.HostPath {
			return known.Name
		}
	}
	name := p.unusedVolume(kind + "-" + strconv.Itoa(len(p.Spec.Volumes)+1))
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
	return name
}

// unusedVolume returns a name that no volume has.
func (p *pod) unusedVolume(name string) string {
	return unused(name, func(name string) bool {
		return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
	})
}

// memory adds a volume in memory. A size of 0 means no limit.
func (p *pod) memory(size int64) string {
	dir := &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}
	if size > 0 {
		dir.SizeLimit = resource.NewQuantity(size, resource.BinarySI)
	}
	return p.volume("memory", v1.VolumeSource{EmptyDir: dir})
}

// tmpfsSize is the size of a mount of --mount type=tmpfs in bytes.
func tmpfsSize(mounts []mount.Mount, target string) int64 {
	for _, m := range mounts {
		if m.Target == target && m.TmpfsOptions != nil {
			return m.TmpfsOptions.SizeBytes
		}
	}
	return 0
}

// optionSize is the size in the options of --tmpfs, in bytes.
func optionSize(options string) int64 {
	for option := range strings.SplitSeq(options, ",") {
		if text, ok := strings.CutPrefix(option, "size="); ok {
			size, err := units.RAMInBytes(text)
			if err == nil {
				return size
			}
		}
	}
	return 0
}

// claim adds the claim of a named volume. The claim is bound to the engine's directory of the volume, so a pod on the
// same machine finds the volume's files. It returns the name of the pod's volume.
func (p *pod) claim(m *container.MountPoint) string {
	for _, known := range p.volumes {
		if known.Spec.HostPath.Path == m.Source {
			return known.Name
		}
	}
	name := p.unusedVolume(cmp.Or(validName(m.Name), "volume"))
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	access := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	p.volumes = append(p.volumes, &v1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{Capacity: size, AccessModes: access,
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: m.Source}},
			ClaimRef:               &v1.ObjectReference{Namespace: v1.NamespaceDefault, Name: name}},
	})
	p.claims = append(p.claims, &v1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeClaimSpec{AccessModes: access, VolumeName: name,
			Resources: v1.VolumeResourceRequirements{Requests: size}},
	})
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	return name
}
