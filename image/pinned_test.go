package image

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	mobycontainer "github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// The kubelet must not try to remove an image that a container of `docker run` uses, even a stopped one.
func TestImagesOfForeignContainersArePinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := dockertest.New(dockertest.Options{Images: []dockertest.Image{
			{Names: []string{"a"}}, {Names: []string{"b"}}}})
		defer engine.Close()
		s := newService(t, Options{Engine: engine, Foreign: func(c mobycontainer.Summary) bool {
			return slices.Contains(c.Names, "/mine")
		}, Mounted: func(mobycontainer.Summary) []string { return []string{"b:latest"} }})
		defer testutil.Background(t, func(ctx context.Context) error {
			if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		})()
		create := func(name string) (string, error) {
			return engine.CreateContainer(t.Context(), docker.ContainerSpec{
				Name: name, Config: &mobycontainer.Config{Image: "a"}, Host: &mobycontainer.HostConfig{}})
		}
		id := ""
		for _, step := range []struct {
			what   string
			change func() error
			pinned bool
		}{
			{"with the container of a pod", func() error { _, err := create("k8s_a"); return err }, false},
			{"after docker run", func() (err error) { id, err = create("mine"); return err }, true},
			{"while the engine lists no containers", func() error {
				engine.Inject("ListContainers", dockertest.Fault{Times: 1})
				return nil
			}, true},
			{"after docker rm", func() error { return engine.RemoveContainer(t.Context(), id) }, false},
		} {
			testutil.Must(t, step.change())
			s.ForeignChanged()
			time.Sleep(2 * foreignPause) // also for the list after a failed one
			synctest.Wait()
			for _, image := range []string{"a", "b"} {
				testutil.Equal(t, statusOf(t, s, image).GetPinned(), step.pinned, "%s is pinned %s", image, step.what)
			}
		}
	})
}

// At a start the containers are listed before the images are known.
func TestPinOfAnImageThatIsListedLater(t *testing.T) {
	engine := dockertest.New(dockertest.Options{Images: []dockertest.Image{
		{Names: []string{"a"}}, {Names: []string{"b"}}}})
	defer engine.Close()
	s := newService(t, Options{Engine: engine, Foreign: func(mobycontainer.Summary) bool { return true },
		Mounted: func(mobycontainer.Summary) []string { return []string{"b:latest"} }})
	_, err := engine.CreateContainer(t.Context(), docker.ContainerSpec{
		Name: "mine", Config: &mobycontainer.Config{Image: "a"}, Host: &mobycontainer.HostConfig{}})
	testutil.Must(t, err)
	s.lookAtForeign(t.Context())
	for _, name := range []string{"a", "b"} {
		testutil.Assert(t, statusOf(t, s, name).GetPinned(), "%s is not pinned", name)
	}
}
