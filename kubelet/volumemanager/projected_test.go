package volumemanager

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

// tokens issues the test's token, and records the calls.
type tokens struct {
	token     string
	err       error
	audiences []string
	forgotten []types.UID
}

func (t *tokens) Token(_ context.Context, _ *v1.Pod, projection *v1.ServiceAccountTokenProjection) (string, error) {
	t.audiences = append(t.audiences, projection.Audience)
	return t.token, t.err
}

func (t *tokens) Forget(uid types.UID) { t.forgotten = append(t.forgotten, uid) }

// accessVolume is the volume that the API server adds to every pod.
func accessVolume() v1.Volume {
	life := int64(3607)
	return v1.Volume{Name: "kube-api-access-x2x4z",
		VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &life}},
			{ConfigMap: &v1.ConfigMapProjection{
				LocalObjectReference: v1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []v1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{
				{Path: "namespace",
					FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
			}}},
		}}}}
}

func tokenManager(t *testing.T) (*Manager, *tokens) {
	t.Helper()
	needRoot(t)
	m := testManager(t,
		modeltest.Objects{
			ConfigMaps: map[string]*v1.ConfigMap{"shop/kube-root-ca.crt": {Data: map[string]string{"ca.crt": "PEM"}}}})
	issuer := &tokens{token: "first"}
	m.opts.Tokens = issuer
	return m, issuer
}

func TestAccessVolume(t *testing.T) {
	m, issuer := tokenManager(t)
	pod := podWith(accessVolume())
	path := mustMount(t, m, pod)
	wantTmpfs(t, path)
	wantFile(t, filepath.Join(path, "token"), "first")
	wantFile(t, filepath.Join(path, "ca.crt"), "PEM")
	wantFile(t, filepath.Join(path, "namespace"), "shop")
	before, _ := os.Readlink(filepath.Join(path, dataLink))
	mustMount(t, m, pod)
	again, _ := os.Readlink(filepath.Join(path, dataLink))
	testutil.Assert(t, again == before, "the same token was written again")
	issuer.token = "second"
	mustMount(t, m, pod)
	wantFile(t, filepath.Join(path, "token"), "second")
	after, _ := os.Readlink(filepath.Join(path, dataLink))
	testutil.Assert(t, after != before, "the new token was written over the old one, not swapped")
	testutil.Must(t, m.Unmount(context.Background(), pod.UID))
	testutil.Assert(t, len(issuer.forgotten) == 1 && issuer.forgotten[0] == pod.UID, "forgotten: %v", issuer.forgotten)
}

func TestTokenThatIsRefusedLeavesTheOldOne(t *testing.T) {
	m, issuer := tokenManager(t)
	pod := podWith(accessVolume())
	path := mustMount(t, m, pod)
	issuer.err = errdefs.ErrUnavailable
	err := m.Mount(context.Background(), pod)
	testutil.Assert(t, errdefs.IsUnavailable(err) && strings.Contains(err.Error(), "sources[0]"), "got %v", err)
	wantFile(t, filepath.Join(path, "token"), "first")
}

func TestTokenIsReadByThePodsUser(t *testing.T) {
	user, other, group := int64(1001), int64(1002), int64(4242)
	as := func(uid *int64) v1.Container {
		return v1.Container{SecurityContext: &v1.SecurityContext{RunAsUser: uid}}
	}
	for name, c := range map[string]struct {
		pod        v1.PodSecurityContext
		containers []v1.Container
		mode       fs.FileMode
		uid, gid   uint32
	}{
		"no user is set": {v1.PodSecurityContext{}, []v1.Container{{}}, 0o644, 0, 0},
		"the pod's user": {v1.PodSecurityContext{RunAsUser: &user}, []v1.Container{{}}, 0o600, 1001, 0},
		"the containers' user": {v1.PodSecurityContext{RunAsUser: &other}, []v1.Container{as(&user), as(&user)},
			0o600, 1001, 0},
		"users differ": {v1.PodSecurityContext{RunAsUser: &user}, []v1.Container{{}, as(&other)}, 0o644, 0,
			0},
		"one container sets no user": {v1.PodSecurityContext{}, []v1.Container{as(&user), {}}, 0o644, 0, 0},
		"an fsGroup":                 {v1.PodSecurityContext{FSGroup: &group}, []v1.Container{{}}, 0o640, 0, 4242},
		"a user and an fsGroup": {v1.PodSecurityContext{RunAsUser: &user, FSGroup: &group}, []v1.Container{{}},
			0o640, 1001, 4242},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := tokenManager(t)
			pod := podWith(accessVolume())
			pod.Spec.SecurityContext, pod.Spec.Containers = &c.pod, c.containers
			info, err := os.Stat(filepath.Join(mustMount(t, m, pod), "token"))
			testutil.Must(t, err)
			stat := info.Sys().(*syscall.Stat_t)
			testutil.Assert(t, info.Mode().Perm() == c.mode && stat.Uid == c.uid && stat.Gid == c.gid,
				"mode %v of %d:%d, want %v of %d:%d", info.Mode().Perm(), stat.Uid, stat.Gid, c.mode, c.uid, c.gid)
		})
	}
}

func TestSourcesThatAreRefused(t *testing.T) {
	for name, source := range map[string]v1.VolumeProjection{
		"clusterTrustBundle":  {ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Path: "ca"}},
		"podCertificate":      {PodCertificate: &v1.PodCertificateProjection{SignerName: "s"}},
		"serviceAccountToken": {ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
	} {
		m := testManager(t, modeltest.Objects{}) // without Tokens
		pod := podWith(
			v1.Volume{Name: "all",
				VolumeSource: v1.VolumeSource{
					Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{source}}}})
		err := m.Mount(context.Background(), pod)
		testutil.Assert(t, errdefs.IsNotImplemented(err) && strings.Contains(err.Error(), name),
			"%s: got %v", name, err)
	}
}

func TestFieldsFollowThePod(t *testing.T) {
	needRoot(t)
	m := testManager(t, modeltest.Objects{})
	pod := podWith(
		v1.Volume{Name: "info",
			VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
				{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
				{Path: "note", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.annotations['note']"}},
			}}}})
	path := mustMount(t, m, pod)
	wantFile(t, filepath.Join(path, "note"), "")
	pod.Labels["tier"], pod.Annotations = "front", map[string]string{"note": "read me"}
	mustMount(t, m, pod)
	wantFile(t, filepath.Join(path, "labels"), "app=\"web\"\ntier=\"front\"")
	wantFile(t, filepath.Join(path, "note"), "read me")
}
