package container

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestRefusedImageLeavesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		change func(config *runtimeapi.ContainerConfig)
		field  string
	}{
		"container's image": {func(config *runtimeapi.ContainerConfig) {
			config.Image = &runtimeapi.ImageSpec{Image: "busybox", UserSpecifiedImage: "evil"}
		}, "config.image.image"},
		"second image volume": {func(config *runtimeapi.ContainerConfig) {
			config.Mounts = imageMounts("one:part", "two:part")
			config.Mounts[1].Image.UserSpecifiedImage = "evil"
		}, "config.mounts[1].image.image"},
	} {
		t.Run(name, func(t *testing.T) {
			n, engine, volumes := newImageNode(t, dockertest.Docker29)
			n.opts.Images = engineImages{Engine: engine, refuse: func(name string) error {
				if name == "evil" {
					return fmt.Errorf("%w: image evil", crierrors.ErrSignatureValidationFailed)
				}
				return nil
			}}
			pod := n.pod()
			before, err := engine.ListContainers(t.Context(), nil)
			testutil.Must(t, err)
			config := n.config("sleep", "1000")
			test.change(config)
			_, err = n.Create(t.Context(), pod, config, nil)
			testutil.Require(t, errors.Is(err, crierrors.ErrSignatureValidationFailed), "Create: got %v", err)
			testutil.Assert(t, strings.HasPrefix(err.Error(), test.field+": "), "error %q does not begin with %s", err,
				test.field)
			after, err := engine.ListContainers(t.Context(), nil)
			testutil.Must(t, err)
			testutil.Equal(t, len(after), len(before), "number of containers after the refusal")
			testutil.Equal(t, volumes.held, 0, "number of held images")
		})
	}
}
