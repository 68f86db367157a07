package image_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	mobycontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	criimage "github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/image/trust"
	"github.com/criadapter/criadapter/internal/testutil"
)

// dying is an engine whose caller is killed as soon as the engine has changed an image. No later call arrives.
type dying struct {
	docker.Engine
	killed bool
}

func (d *dying) RemoveImage(ctx context.Context, ref string) error {
	return d.change(func() error { return d.Engine.RemoveImage(ctx, ref) })
}

func (d *dying) ForceRemoveImage(ctx context.Context, id string) error {
	return d.change(func() error { return d.Engine.ForceRemoveImage(ctx, id) })
}

func (d *dying) TagImage(ctx context.Context, source, target string) error {
	return d.change(func() error { return d.Engine.TagImage(ctx, source, target) })
}

func (d *dying) change(call func() error) error {
	if d.killed {
		return errdefs.ErrUnavailable
	}
	err := call()
	d.killed = err == nil
	return err
}

// manyNames is an image of two repositories and three tags.
var manyNames = dockertest.Image{Names: []string{"a:1", "a:2", "r.example/other:3"}}

// removeFrom removes the image manyNames from an engine, through a service whose engine is wrap(engine).
func removeFrom(
	ctx context.Context, t *testing.T, engine *dockertest.Engine, wrap func(docker.Engine) docker.Engine,
) error {
	t.Helper()
	service, err := criimage.New(criimage.Options{Engine: wrap(engine)})
	testutil.Must(t, err)
	defer service.Close()
	return service.Remove(ctx, spec("a:1"))
}

// eachEngine runs a test on an engine of each flavor that has the image manyNames.
func eachEngine(t *testing.T, test func(t *testing.T, engine *dockertest.Engine)) {
	for name, flavor := range map[string]dockertest.Flavor{"20.10": dockertest.Docker20, "29": dockertest.Docker29} {
		t.Run(name, func(t *testing.T) {
			engine := dockertest.New(dockertest.Options{Flavor: flavor, Images: []dockertest.Image{manyNames}})
			defer engine.Close()
			test(t, engine)
		})
	}
}

// inspect returns the image manyNames, nil when it is gone.
func inspect(t *testing.T, engine *dockertest.Engine) *image.InspectResponse {
	t.Helper()
	for _, name := range manyNames.Names {
		got, err := engine.InspectImage(t.Context(), name)
		if err == nil {
			return got
		}
		testutil.Require(t, errdefs.IsNotFound(err), "%v", err)
	}
	return nil
}

// checkWhole wants the image with all its names.
func checkWhole(t *testing.T, engine *dockertest.Engine, before *image.InspectResponse) {
	t.Helper()
	after := inspect(t, engine)
	testutil.Assert(t, after != nil && len(after.RepoTags) == len(before.RepoTags) &&
		len(after.RepoDigests) == len(before.RepoDigests), "before: %+v, after: %+v", before, after)
}

func TestInterruptedRemovalIsWholeOrNothing(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine *dockertest.Engine) {
		before := inspect(t, engine)
		err := removeFrom(t.Context(), t, engine, func(e docker.Engine) docker.Engine { return &dying{Engine: e} })
		if after := inspect(t, engine); after == nil {
			return
		}
		t.Logf("the removal ended with %v", err)
		checkWhole(t, engine, before)
	})
}

// TestRemovalOutlastsItsCaller checks that the end of the caller does not cancel the engine's removal half way.
func TestRemovalOutlastsItsCaller(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine *dockertest.Engine) {
		engine.Inject("ForceRemoveImage", dockertest.Fault{Delay: 100 * time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		left := make(chan struct{})
		go func() {
			defer close(left)
			for engine.Calls("ForceRemoveImage") == 0 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		err := removeFrom(ctx, t, engine, func(e docker.Engine) docker.Engine { return e })
		cancel()
		<-left
		after := inspect(t, engine)
		testutil.Assert(t, err == nil && after == nil, "%v, left: %+v", err, after)
	})
}

func TestRemovalThatFailsLeavesTheNames(t *testing.T) {
	for what, tt := range map[string]struct {
		fault dockertest.Fault
		is    func(error) bool
	}{
		"in use": {dockertest.Fault{Err: errdefs.ErrConflict}, errdefs.IsFailedPrecondition},
		"away":   {dockertest.Fault{}, errdefs.IsUnavailable},
		"deadline": {dockertest.Fault{Err: context.DeadlineExceeded}, func(err error) bool {
			return errors.Is(err, context.DeadlineExceeded)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, engine *dockertest.Engine) {
				before := inspect(t, engine)
				engine.Inject("ForceRemoveImage", tt.fault)
				err := removeFrom(t.Context(), t, engine, func(e docker.Engine) docker.Engine { return e })
				testutil.Assert(t, tt.is(err), "got %v", err)
				checkWhole(t, engine, before)
			})
		})
	}
}

// The engine removes no image that other images were built on, but it takes the names, and then no longer lists it.
func TestRemovalOfAnImageWithChildren(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine *dockertest.Engine) {
		refusal := fmt.Errorf("%w: unable to delete x (cannot be forced) - image has dependent child images",
			errdefs.ErrConflict)
		engine.Inject("ForceRemoveImage", dockertest.Fault{Err: refusal})
		err := removeFrom(t.Context(), t, engine, func(e docker.Engine) docker.Engine { return e })
		after := inspect(t, engine)
		testutil.Assert(t, err == nil && after == nil, "%v, left: %+v", err, after)
	})
}

// creating is an engine on which a container of the image is made just before RemoveImage reaches it.
type creating struct{ docker.Engine }

func (c creating) RemoveImage(ctx context.Context, ref string) error {
	_, err := c.CreateContainer(ctx, docker.ContainerSpec{
		Name: "late", Config: &mobycontainer.Config{Image: "a:2"}, Host: &mobycontainer.HostConfig{},
	})
	return errors.Join(err, c.Engine.RemoveImage(ctx, ref))
}

// TestContainerMadeDuringRemovalKeepsItsImage checks that no forced removal takes the image of a new container.
func TestContainerMadeDuringRemovalKeepsItsImage(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine *dockertest.Engine) {
		before := inspect(t, engine)
		err := removeFrom(t.Context(), t, engine, func(e docker.Engine) docker.Engine { return creating{e} })
		testutil.Assert(t, errdefs.IsFailedPrecondition(err), "got %v, want ErrFailedPrecondition", err)
		checkWhole(t, engine, before)
	})
}

// TestInspectsOfARemoval counts inspects: two cost Docker Engine 29 more than the removal itself. The kubelet removes
// images by their ids.
func TestInspectsOfARemoval(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine *dockertest.Engine) {
		service, err := criimage.New(criimage.Options{Engine: engine})
		testutil.Must(t, err)
		defer service.Close()
		list, err := service.List(t.Context(), nil)
		testutil.Must(t, err)
		before := engine.Calls("InspectImage")
		testutil.Must(t, service.Remove(t.Context(), spec(list[0].GetId())))
		testutil.Equal(t, engine.Calls("InspectImage")-before, 0, "inspects")
		left, err := service.List(t.Context(), nil)
		testutil.Assert(t, err == nil && len(left) == 0, "after the removal: %v, %v", left, err)
		testutil.Must(t, service.Remove(t.Context(), spec(list[0].GetId())), "a second removal")
	})
}

// restoring is an engine whose image a pull brings back before the removal returns.
type restoring struct {
	docker.Engine
	pull func()
}

func (r *restoring) RemoveImage(ctx context.Context, ref string) error {
	return r.restore(r.Engine.RemoveImage(ctx, ref))
}

func (r *restoring) ForceRemoveImage(ctx context.Context, id string) error {
	return r.restore(r.Engine.ForceRemoveImage(ctx, id))
}

func (r *restoring) restore(err error) error {
	if err == nil {
		r.pull()
	}
	return err
}

func TestImagePulledDuringItsRemovalIsListed(t *testing.T) {
	for name, flavor := range map[string]dockertest.Flavor{"20.10": dockertest.Docker20, "29": dockertest.Docker29} {
		t.Run(name, func(t *testing.T) {
			images := []dockertest.Image{{Names: []string{"a:1"}}}
			engine := dockertest.New(dockertest.Options{Flavor: flavor, Images: images, Registry: images})
			defer engine.Close()
			r := &restoring{Engine: engine}
			service, err := criimage.New(criimage.Options{Engine: r})
			testutil.Must(t, err)
			defer service.Close()
			r.pull = func() {
				_, err := service.Pull(t.Context(), spec("a:1"), nil)
				testutil.Check(t, err)
			}
			list, err := service.List(t.Context(), nil)
			testutil.Must(t, err)
			testutil.Must(t, service.Remove(t.Context(), spec(list[0].GetId())))
			after, err := service.List(t.Context(), nil)
			testutil.Assert(t, err == nil && len(after) == 1, "after the pull: %v, %v", after, err)
		})
	}
}

// A pull verifies and keeps signatures before it transfers the image. So the kept signatures may belong to the image
// that is being removed.
func TestSignaturesOfARemovedImage(t *testing.T) {
	for name, pulling := range map[string]bool{"during a pull": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				policy := filepath.Join(dir, "policy.yaml")
				testutil.WriteFile(t, policy, "default: accept\n")
				engine := dockertest.New(dockertest.Options{Images: []dockertest.Image{manyNames},
					Registry: []dockertest.Image{{Names: []string{"b:1"}}}})
				defer engine.Close()
				service, err := criimage.New(criimage.Options{Engine: engine,
					Trust: trust.New(trust.Options{Policy: policy, Kept: dir})})
				testutil.Must(t, err)
				defer service.Close()
				_, err = service.List(t.Context(), nil)
				testutil.Must(t, err)
				_, digest, _ := strings.Cut(inspect(t, engine).RepoDigests[0], "@")
				kept := filepath.Join(dir, strings.ReplaceAll(digest, ":", "-")+".json")
				testutil.WriteFile(t, kept, "[]")
				longAgo := time.Now().Add(-24 * time.Hour)
				testutil.Must(t, os.Chtimes(kept, longAgo, longAgo))
				ended := testutil.Go(func() error { return nil })
				if pulling {
					engine.Inject("PullImage", dockertest.Fault{Delay: time.Second})
					ended = testutil.Try(func() (string, error) { return service.Pull(t.Context(), spec("b:1"), nil) })
					synctest.Wait()
				}
				testutil.Must(t, service.Remove(t.Context(), spec("a:1")))
				if pulling {
					testutil.Exists(t, kept, "signatures that the pull may have verified")
				}
				testutil.Must(t, <-ended)
				testutil.Gone(t, kept)
			})
		})
	}
}
