package volumekinds

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestObjectsOf: objects are found in all fields that may name one.
func TestObjectsOf(t *testing.T) {
	local := func(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: v1.PodSpec{
		ImagePullSecrets: []v1.LocalObjectReference{local("pull"), local("")},
		Volumes: []v1.Volume{
			{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
			{
				VolumeSource: v1.VolumeSource{
					ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: local("volume")}}},
			{VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "volume"}}},
			{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: local("kube-root-ca.crt")}},
				{Secret: &v1.SecretProjection{LocalObjectReference: local("projected")}},
				{ServiceAccountToken: &v1.ServiceAccountTokenProjection{}},
			}}}},
		},
		InitContainers: []v1.Container{
			{EnvFrom: []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("init")}}}}},
		Containers: []v1.Container{{
			EnvFrom: []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: local("env")}}},
			Env: []v1.EnvVar{
				{Value: "plain"},
				{
					ValueFrom: &v1.EnvVarSource{
						ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: local("key")}}},
				{ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: local("key")}}},
				{ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{}}},
			},
		}},
	}}
	var got []string
	for k := range ObjectsOf(pod) {
		got = append(got, k.String())
	}
	slices.Sort(got)
	want := []string{
		`configmap "shop/init"`, `configmap "shop/key"`, `configmap "shop/kube-root-ca.crt"`, `configmap "shop/volume"`,
		`secret "shop/env"`, `secret "shop/key"`, `secret "shop/projected"`, `secret "shop/pull"`,
		`secret "shop/volume"`,
	}
	testutil.Assert(t, slices.Equal(got, want), "found %q, want %q", got, want)
}

// TestChanges: the reader gets all unread objects at once.
func TestChanges(t *testing.T) {
	c := NewChanges()
	a, b := Object{Secrets, types.NamespacedName{Name: "a"}}, Object{ConfigMaps, types.NamespacedName{Name: "b"}}
	for _, changed := range []Object{a, b, a} {
		c.Add(changed)
	}
	got := <-c.Wait()
	testutil.Assert(t, len(got) == 2 && got[a] && got[b], "got %v", got)
	select {
	case got := <-c.Wait():
		t.Errorf("taken twice: %v", got)
	default:
	}
}
