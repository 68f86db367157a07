package kubelet

import (
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// TestImageVolumes mounts an image, whole and in part. A pod whose image or part does not exist keeps waiting.
func TestImageVolumes(t *testing.T) {
	n := newNode(t)
	multi := n.env.Image("test/multi:c")
	const spec = `
  terminationGracePeriodSeconds: 0
  volumes: [{name: model, image: {reference: "IMAGE"}}]
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "cat /model/multi /one; touch /model/new 2>/dev/null || echo read-only; ls /model/bin/sh; echo the end; sleep 1000"]
    volumeMounts: [{name: model, mountPath: /model}, {name: model, mountPath: /one, subPath: PART}]
`
	write := func(name, image, part string) {
		n.writePod(name, strings.NewReplacer("IMAGE", image, "PART", part).Replace(spec))
	}
	write("reader", multi, "multi")
	reader := n.ready("reader")
	n.logHas(reader, "main", 0, "the end")
	got, want := n.log(reader, "main", 0), "multi\nmulti\nread-only\n/model/bin/sh\nthe end\n"
	testutil.Assert(t, got == want, "the container saw %q, want %q", got, want)
	n.event("reader", "Pulled")
	shown := status(reader, "main")
	testutil.Require(t, len(shown.VolumeMounts) == 2 && shown.VolumeMounts[0].VolumeStatus != nil,
		"the status shows the mounts %+v", shown.VolumeMounts)
	testutil.Assert(t, strings.Contains(shown.VolumeMounts[0].VolumeStatus.Image.ImageRef, "@sha256:"),
		"the status shows the image %+v", shown.VolumeMounts[0].VolumeStatus.Image)
	testutil.Assert(t, shown.User != nil && shown.User.Linux.UID == 0, "the status shows the user %+v", shown.User)
	testutil.Assert(t, shown.StopSignal != nil && *shown.StopSignal == "SIGTERM", "the status shows the signal %v",
		shown.StopSignal)
	write("part", multi, "no/such")
	write("image", n.env.Image("test/no-such:1"), "multi")
	for name, reason := range map[string]string{"part": "ImageVolumeMountFailed", "image": model.ReasonErrImagePull} {
		n.until(name, wantWaiting("main", "", reason))
	}
	n.end("reader")
}
