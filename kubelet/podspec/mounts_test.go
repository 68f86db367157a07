package podspec

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestVolumeMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("binding subPaths needs root")
	}
	g := testGenerator(t, func(o *Options) { o.RecursiveReadOnly = true })
	dir := t.TempDir()
	testutil.Must(t, os.WriteFile(dir+"/web.conf", []byte("x"), 0o600))
	pod := testPod(func(pod *v1.Pod) {
		pod.Spec.Volumes = []v1.Volume{
			{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}},
			{Name: "conf",
				VolumeSource: v1.VolumeSource{
					ConfigMap: &v1.ConfigMapVolumeSource{
						LocalObjectReference: v1.LocalObjectReference{Name: "settings"},
						Items:                []v1.KeyToPath{{Key: "color", Path: "color"}}}}},
		}
		c := &pod.Spec.Containers[0]
		c.TerminationMessagePath = "/dev/termination-log"
		c.Env = []v1.EnvVar{{Name: "NAME", Value: "web"}}
		c.VolumeMounts = []v1.VolumeMount{
			{Name: "host", MountPath: "rel", ReadOnly: true,
				MountPropagation:  new(v1.MountPropagationHostToContainer),
				RecursiveReadOnly: new(v1.RecursiveReadOnlyEnabled)},
			{Name: "conf", MountPath: "/conf"},
			{Name: "host", MountPath: "/one", SubPathExpr: "$(NAME).conf"},
		}
	})
	testutil.Must(t, g.opts.Volumes.Mount(context.Background(), pod))
	t.Cleanup(func() {
		testutil.Check(t, g.opts.Volumes.Unmount(context.Background(), pod.UID))
	})
	config := mustContainer(t, g, input(pod))
	host := mountAt(t, config, "/rel")
	testutil.Assert(t, host.GetHostPath() == dir && host.GetReadonly() && host.GetRecursiveReadOnly() &&
		host.GetPropagation() == runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER, "host: %v", host)
	conf := mountAt(t, config, "/conf")
	content, err := os.ReadFile(conf.GetHostPath() + "/color")
	testutil.Assert(t, err == nil && string(content) == "red" && conf.GetReadonly(),
		"conf: %v holds %q, %v; want it read-only", conf, content, err)
	content, err = os.ReadFile(mountAt(t, config, "/one").GetHostPath())
	testutil.Assert(t, err == nil && string(content) == "x", "subPathExpr: %q, %v", content, err)
	message := mountAt(t, config, "/dev/termination-log")
	if info, err := os.Stat(message.GetHostPath()); err != nil || info.Mode().Perm() != 0o666 || info.Size() != 0 {
		t.Errorf("termination message: %v, %v", info, err)
	}
	again := mountAt(t, mustContainer(t, g, input(pod)), "/dev/termination-log")
	testutil.Assert(t, again.GetHostPath() != message.GetHostPath(),
		"the next attempt has the same file for its termination message")
}

// TestTerminationMessagesDoNotPileUp: a container that crashes again and again keeps the files of its last attempts. A
// start that is tried again keeps one file.
func TestTerminationMessagesDoNotPileUp(t *testing.T) {
	g := testGenerator(t, nil)
	in := input(testPod(func(pod *v1.Pod) { pod.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log" }))
	var paths []string
	for in.Attempt = range uint32(20) {
		for range 2 {
			paths = append(paths, mountAt(t, mustContainer(t, g, in), "/dev/termination-log").GetHostPath())
		}
	}
	entries, err := os.ReadDir(filepath.Dir(paths[0]))
	testutil.Assert(t, err == nil && len(entries) == 1+keptMessages, "%d files, %v", len(entries), err)
	for i := range 1 + keptMessages {
		path := paths[len(paths)-1-2*i]
		_, err := os.Stat(path)
		testutil.Assert(t, err == nil, "the file of an attempt before: %v", err)
	}
}

func TestImageMounts(t *testing.T) {
	pod := testPod(func(pod *v1.Pod) {
		pod.Spec.Volumes = []v1.Volume{
			{Name: "model", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "models:1"}}}}
		c := &pod.Spec.Containers[0]
		c.Env = []v1.EnvVar{{Name: "SIZE", Value: "small"}}
		c.VolumeMounts = []v1.VolumeMount{{Name: "model", MountPath: "all"},
			{Name: "model", MountPath: "/one", SubPathExpr: "sizes/$(SIZE)"}}
	})
	g := testGenerator(t, nil)
	testutil.Must(t, g.opts.Volumes.Mount(context.Background(), pod))
	in := input(pod)
	in.ImageVolumes = map[string]*runtimeapi.ImageSpec{"model": {Image: "sha256:abc", UserSpecifiedImage: "models:1"}}
	config := mustContainer(t, g, in)
	for target, part := range map[string]string{"/all": "", "/one": "sizes/small"} {
		m := mountAt(t, config, target)
		testutil.Assert(t, m.GetImage().GetImage() == "sha256:abc" && m.GetImageSubPath() == part &&
			m.GetHostPath() == "" && m.GetReadonly(), "%s: %v", target, m)
	}
	for want, change := range map[string]func(*v1.VolumeMount){
		"subPath":          func(m *v1.VolumeMount) { m.SubPath = "a/../../b" },
		"mountPropagation": func(m *v1.VolumeMount) { m.MountPropagation = new(v1.MountPropagationBidirectional) },
		"not present":      func(*v1.VolumeMount) { delete(in.ImageVolumes, "model") },
	} {
		bad := v1.VolumeMount{Name: "model", MountPath: "/bad"}
		change(&bad)
		in.Pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{bad}
		_, err := g.Container(context.Background(), in)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want),
			"got %v, want an error with %q", err, want)
		in.ImageVolumes["model"] = &runtimeapi.ImageSpec{Image: "sha256:abc"}
	}
}

func TestBadMounts(t *testing.T) {
	for want, mount := range map[string]v1.VolumeMount{
		`no volume "none"`:   {Name: "none", MountPath: "/x"},
		`no variable "WHAT"`: {Name: "host", MountPath: "/x", SubPathExpr: "$(WHAT)"},
		"mountPropagation": {Name: "host", MountPath: "/x",
			MountPropagation: new(v1.MountPropagationMode("Sideways"))},
		"recursiveReadOnly": {Name: "host", MountPath: "/x",
			RecursiveReadOnly: new(v1.RecursiveReadOnlyMode("Perhaps"))},
		"does not stay in": {Name: "host", MountPath: "/x", SubPath: "../.."},
	} {
		pod := testPod(func(pod *v1.Pod) {
			pod.Spec.Volumes = []v1.Volume{
				{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/tmp"}}}}
			pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{mount}
		})
		_, err := testGenerator(t, nil).Container(context.Background(), input(pod))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "volumeMounts[0]") {
			t.Errorf("got %v, want an error about volumeMounts[0] with %q", err, want)
		}
	}
}

func TestRecursiveReadOnly(t *testing.T) {
	for _, c := range []struct {
		mode    v1.RecursiveReadOnlyMode
		runtime bool
		want    bool
		ok      bool
	}{
		{v1.RecursiveReadOnlyDisabled, true, false, true},
		{v1.RecursiveReadOnlyIfPossible, true, true, true}, {v1.RecursiveReadOnlyIfPossible, false, false, true},
		{v1.RecursiveReadOnlyEnabled, true, true, true}, {v1.RecursiveReadOnlyEnabled, false, false, false},
	} {
		g := testGenerator(t, func(o *Options) { o.RecursiveReadOnly = c.runtime })
		got, err := g.recursiveReadOnly(&v1.VolumeMount{RecursiveReadOnly: &c.mode})
		testutil.Assert(t, got == c.want && (err == nil) == c.ok,
			"%s, runtime support %t: got %t, %v", c.mode, c.runtime, got, err)
	}
}
