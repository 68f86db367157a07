package volumemanager

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// binding is the path that a claim is bound to. ClaimsDir records it: as a directory with the claim's name, or as a
// link to the path of a persistent volume. So the binding outlives the volume's manifest.
type binding struct {
	// entry is the claim's path in ClaimsDir. path is the directory or file that the pod gets.
	entry, path string
	// volume is the persistent volume that the manifests have for the claim, or nil.
	volume *v1.HostPathVolumeSource
	// exists says that the entry is on the disk, and linked that it is a link.
	exists, linked bool
}

func (o *Options) claim(namespace, name string) (binding, error) {
	if o.ClaimsDir == "" {
		return binding{}, fmt.Errorf("claim %q: there is no directory for claims: %w", name, errdefs.ErrNotImplemented)
	}
	if err := claimElements(namespace, name); err != nil {
		return binding{}, err
	}
	volume, err := o.Claims.Claim(namespace, name)
	if err != nil {
		return binding{}, err
	}
	b := binding{entry: filepath.Join(o.ClaimsDir, namespace, name)}
	if b.path = b.entry; volume != nil {
		if b.volume = volumekinds.OfPersistentVolume(volume); b.volume == nil {
			return binding{}, fmt.Errorf("claim %q: the persistent volume %q is neither local nor a hostPath: %w", name,
				volume.Name, errdefs.ErrNotImplemented)
		}
		b.path = filepath.Clean(b.volume.Path)
	}
	return b, b.compare()
}

// claimElements checks the two elements of a claim's path in ClaimsDir.
func claimElements(namespace, name string) error {
	return errors.Join(element("metadata.namespace", namespace), element("claimName", name))
}

// compare looks for an earlier binding. A binding to another path is an errdefs.ErrFailedPrecondition: the pod would
// find the files of another claim, or none.
func (b *binding) compare() error {
	bound := b.entry
	target, err := os.Readlink(b.entry)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err == nil:
		b.linked, bound = true, target
	case !errors.Is(err, unix.EINVAL): // EINVAL: it is a directory
		return err
	}
	b.exists = true
	if b.volume == nil {
		b.path = bound
	}
	if b.path != bound {
		return fmt.Errorf("the claim is bound to %s, not to %s; to bind it anew, move %s away: %w", bound, b.path,
			b.entry, errdefs.ErrFailedPrecondition)
	}
	return nil
}

// Claim implements volumekinds.Host.
func (h host) Claim(pod *v1.Pod, name string) error {
	b, err := h.opts.claim(pod.Namespace, name)
	if err != nil {
		return err
	}
	switch {
	case b.volume != nil:
		if err := volumekinds.CheckHostPath(b.volume); err != nil || b.exists {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(b.entry), 0o750); err != nil {
			return err
		}
		if err := os.Symlink(b.path, b.entry); !errors.Is(err, os.ErrExist) {
			return err
		}
		return b.compare() // another pod has bound the claim meanwhile
	case b.linked:
		_, err := os.Stat(b.path)
		return err
	}
	return h.Directory(b.entry, pod)
}

func (m *Manager) findClaim(pod *v1.Pod, source *v1.PersistentVolumeClaimVolumeSource) (Mounted, error) {
	b, err := m.opts.claim(pod.Namespace, source.ClaimName)
	return Mounted{Path: b.path, ReadOnly: source.ReadOnly, Managed: b.path == b.entry}, err
}

// ClaimPaths returns the paths of the pod's claims by the volumes' names. A claim that cannot be bound is left out.
func (m *Manager) ClaimPaths(pod *v1.Pod) map[string]string {
	paths := map[string]string{}
	for i := range pod.Spec.Volumes {
		claim := pod.Spec.Volumes[i].PersistentVolumeClaim
		if claim == nil {
			continue
		}
		if b, err := m.opts.claim(pod.Namespace, claim.ClaimName); err == nil {
			paths[pod.Spec.Volumes[i].Name] = b.path
		}
	}
	return paths
}
