package volumemanager

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

// claims are persistent volumes by NAMESPACE/CLAIM.
type claims map[string]*v1.PersistentVolume

func (c claims) Claim(namespace, name string) (*v1.PersistentVolume, error) {
	return c[namespace+"/"+name], nil
}

func localVolume(path string) *v1.PersistentVolume {
	return &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}}}}
}

func claiming(namespace, name string) *v1.Pod {
	pod := podWith(v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	pod.Namespace = namespace
	return pod
}

func claimManager(t *testing.T, bound claims) *Manager {
	t.Helper()
	m := testManager(t, modeltest.Objects{})
	m.opts.ClaimsDir, m.opts.Claims = filepath.Join(t.TempDir(), "claims"), bound
	return m
}

// TestClaimOutlivesItsPod: pods of one namespace share a claim's files, which no unmount removes.
func TestClaimOutlivesItsPod(t *testing.T) {
	needRoot(t)
	m := claimManager(t, nil)
	pod := claiming("ns", "data")
	path := mustMount(t, m, pod)
	testutil.Equal(t, path, filepath.Join(m.opts.ClaimsDir, "ns", "data"), "path")
	info, err := os.Stat(path)
	testutil.Assert(t, err == nil && info.Mode().Perm() == 0o777, "mode %v, %v", info.Mode(), err)
	testutil.WriteFile(t, filepath.Join(path, "kept"), "x")
	testutil.Must(t, m.Unmount(t.Context(), pod.UID))
	other := claiming("ns", "data")
	other.UID = "other"
	wantFile(t, filepath.Join(mustMount(t, m, other), "kept"), "x")
	apart := mustMount(t, m, claiming("elsewhere", "data"))
	testutil.Assert(t, apart != path, "two namespaces share %s", path)
	found, err := m.Find(pod, "data")
	testutil.Assert(t, err == nil && found.Managed && !found.ReadOnly, "found %+v, %v", found, err)
	pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	found, err = m.Find(pod, "data")
	testutil.Assert(t, err == nil && found.ReadOnly, "a read-only claim: %+v, %v", found, err)
}

// TestClaimStaysBound: a claim keeps its volume without the volume's manifest, and cannot be bound to another volume.
func TestClaimStaysBound(t *testing.T) {
	disk, other := t.TempDir(), t.TempDir()
	bound := claims{"ns/data": localVolume(disk)}
	m := claimManager(t, bound)
	pod := claiming("ns", "data")
	testutil.Equal(t, mustMount(t, m, pod), disk, "path")
	delete(bound, "ns/data")
	testutil.Equal(t, mustMount(t, m, pod), disk, "path without the manifest of the volume")
	found, err := m.Find(pod, "data")
	testutil.Assert(t, err == nil && !found.Managed, "found %+v, %v", found, err)
	bound["ns/data"] = localVolume(other)
	testutil.Assert(t, errdefs.IsFailedPrecondition(m.Mount(t.Context(), pod)), "another volume was bound")

	fresh := claiming("ns", "fresh")
	mustMount(t, m, fresh)
	bound["ns/fresh"] = localVolume(disk)
	testutil.Assert(t, errdefs.IsFailedPrecondition(m.Mount(t.Context(), fresh)),
		"a volume was bound to a claim that has files")
}

// TestClaimOfAMissingDisk: no directory is made in place of a disk that is not mounted.
func TestClaimOfAMissingDisk(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "disk")
	m := claimManager(t, claims{"ns/data": localVolume(missing)})
	testutil.Assert(t, m.Mount(t.Context(), claiming("ns", "data")) != nil, "a missing disk was mounted")
	testutil.Gone(t, missing, "the directory of the missing disk")
	for _, name := range []string{"", "..", "a/b"} {
		testutil.Assert(t, m.Mount(t.Context(), claiming("ns", name)) != nil, "the claim %q was mounted", name)
		testutil.Assert(t, m.Mount(t.Context(), claiming(name, "data")) != nil,
			"a claim of the namespace %q was mounted", name)
	}
}

// TestUnreadableClaim: an entry that cannot be read is not taken for a claim's directory.
func TestUnreadableClaim(t *testing.T) {
	m := claimManager(t, nil)
	testutil.Must(t, os.Mkdir(m.opts.ClaimsDir, 0o700))
	testutil.Must(t, os.Symlink("ns", filepath.Join(m.opts.ClaimsDir, "ns")))
	_, err := m.opts.claim("ns", "data")
	testutil.Assert(t, errors.Is(err, unix.ELOOP), "the claim is bound: %v", err)
}

// TestClaimOfTwoPods: pods that make one claim at the same time all get the same directory, and leave nothing else
// behind.
func TestClaimOfTwoPods(t *testing.T) {
	m := claimManager(t, claims{"ns/bound": localVolume(t.TempDir())})
	for i := range 20 {
		for _, name := range []string{fmt.Sprint("c", i), "bound"} {
			testutil.Must(t, os.RemoveAll(filepath.Join(m.opts.ClaimsDir, "ns", "bound")))
			var pods sync.WaitGroup
			begin := make(chan struct{})
			const together = 8
			claim := filepath.Join(m.opts.ClaimsDir, "ns", name)
			for pod := range together {
				pods.Go(func() {
					<-begin
					testutil.Check(t, (host{&m.opts}).Claim(claiming("ns", name), name))
					testutil.Check(t, os.WriteFile(filepath.Join(claim, fmt.Sprint(pod)), nil, 0o600))
				})
			}
			close(begin)
			pods.Wait()
			files, err := os.ReadDir(claim)
			testutil.Require(t, err == nil && len(files) == together, "%s has %v, %v", name, files, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(m.opts.ClaimsDir, "ns", "*"))
	testutil.Assert(t, err == nil && len(left) == 21, "left %v, %v", left, err)
}
