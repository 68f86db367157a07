package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/internal/testutil"
)

// follow has the service's cache follow the engine until the test ends, as the program does.
func (r *rig) follow(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	subscribed := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		_ = r.engine.Events(ctx, docker.EventsOptions{
			Subscribed: func() {
				close(subscribed)
				r.Relist()
			},
			Handle: func(event docker.Event) {
				if event.Kind == docker.ImageChanged {
					r.Changed(event.ID)
				}
			},
		})
	})
	group.Go(func() { _ = r.Run(ctx) })
	t.Cleanup(func() { cancel(); group.Wait() })
	<-subscribed
	_, err := r.List(t.Context(), nil)
	testutil.Must(t, err)
}

// tellsWithin bounds the time until a foreign change is visible, on a machine that is busy with other tests. It is
// shorter than the pause between two relists, so a relist in time can only come from an event.
const tellsWithin = 30 * time.Second

// foreign changes images without the service and waits until wanted returns true.
func (r *rig) foreign(t *testing.T, what string, change func() error, wanted func() bool) {
	t.Helper()
	testutil.Must(t, change())
	began := time.Now()
	testutil.EventuallyWithin(t, tellsWithin, what, func() error {
		if !wanted() {
			return errors.New("the change is not visible")
		}
		return nil
	})
	t.Logf("%s is visible after %v", what, time.Since(began).Round(time.Millisecond))
}

// listed returns the tags of the image with an id in the list, nil without the image.
func (r *rig) listed(t *testing.T, id string) []string {
	t.Helper()
	list, err := r.List(t.Context(), nil)
	testutil.Must(t, err)
	for _, img := range list {
		if img.GetId() == id {
			return append([]string{}, img.GetRepoTags()...)
		}
	}
	return nil
}

// api sends a request that package docker does not have.
func (r *rig) api(t *testing.T, path string, query url.Values, body io.Reader) (string, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(r.env.DockerHost, "unix://"))
		},
		DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://engine"+path+"?"+query.Encode(),
		body)
	testutil.Must(t, err)
	request.Header.Set("Content-Type", "application/x-tar")
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || bytes.Contains(answer, []byte(`"errorDetail"`))) {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, answer)
	}
	return string(answer), err
}

// build builds an image from base with one more label. The new image has no name if tag is empty.
func (r *rig) build(t *testing.T, base, tag string) error {
	t.Helper()
	var buildContext bytes.Buffer
	w := tar.NewWriter(&buildContext)
	file := fmt.Sprintf("FROM %s\nLABEL test=%q\n", base, t.Name()+tag)
	testutil.Must(t, w.WriteHeader(&tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(file))}))
	_, err := w.Write([]byte(file))
	testutil.Must(t, err)
	testutil.Must(t, w.Close())
	query := url.Values{"version": {"1"}}
	if tag != "" {
		query.Set("t", tag)
	}
	_, err = r.api(t, "/build", query, &buildContext)
	return err
}

func (r *rig) prune(t *testing.T) error {
	_, err := r.api(t, "/images/prune", url.Values{"filters": {`{"dangling":["true"]}`}}, nil)
	return err
}

// TestRigForeignChangesAreVisible changes images without the service: by pull, tag, rmi, load, build and prune.
func TestRigForeignChangesAreVisible(t *testing.T) {
	r := newRig(t, image.Options{})
	r.follow(t)
	tag := name(t) + ":1"
	r.push(t, fresh(t, 1000, v1.Config{User: "1003"}), tag)
	full := r.env.Image(tag)
	other := strings.TrimSuffix(full, "1") + "2"
	ctx := t.Context()
	r.foreign(t, "pull", func() error { return r.engine.PullImage(ctx, full, docker.PullOptions{}) },
		func() bool { return r.status(t, full) != nil })
	id := r.status(t, full).GetId()
	if uid := r.status(t, full).GetUid().GetValue(); uid != 1003 || !slices.Equal(r.listed(t, id), []string{full}) {
		t.Errorf("the pulled image has the uid %d and the tags %q", uid, r.listed(t, id))
	}
	r.foreign(t, "tag", func() error { return r.engine.TagImage(ctx, full, other) },
		func() bool { return r.status(t, other).GetId() == id && len(r.listed(t, id)) == 2 })
	r.foreign(t, "rmi of a tag", func() error { return r.engine.RemoveImage(ctx, other) },
		func() bool { return r.status(t, other) == nil && len(r.listed(t, id)) == 1 })
	r.foreign(t, "build", func() error { return r.build(t, full, other) },
		func() bool { return r.status(t, other) != nil })
	built := r.status(t, other).GetId()
	testutil.Require(t, built != id, "the build made no image")
	r.foreign(t, "tag that another image had", func() error { return r.engine.TagImage(ctx, full, other) },
		func() bool { return r.status(t, other).GetId() == id && len(r.listed(t, built)) == 0 })
	r.foreign(t, "prune", func() error { return r.prune(t) },
		func() bool { return r.status(t, built) == nil && r.listed(t, built) == nil })
	var archive bytes.Buffer
	testutil.Must(t, r.engine.SaveImage(ctx, full, &archive))
	r.foreign(t, "rmi", func() error { return r.engine.ForceRemoveImage(ctx, id) },
		func() bool { return r.status(t, full) == nil && r.status(t, id) == nil && r.listed(t, id) == nil })
	r.foreign(t, "load", func() error { return r.engine.LoadImage(ctx, &archive) },
		func() bool { return r.status(t, full) != nil && r.listed(t, r.status(t, full).GetId()) != nil })
	testutil.Must(t, r.Remove(ctx, spec(full)))
}

// TestRigUntaggedBuildIsFound checks that a relist finds a build without a tag, for which engines below API 1.46 send
// no event.
func TestRigUntaggedBuildIsFound(t *testing.T) {
	r := newRig(t, image.Options{})
	r.follow(t)
	tag := name(t) + ":1"
	r.push(t, fresh(t, 1000, v1.Config{}), tag)
	full := r.env.Image(tag)
	id := r.pull(t, full)
	features, err := r.engine.Features(t.Context())
	testutil.Must(t, err)
	before, err := r.List(t.Context(), nil)
	testutil.Must(t, err)
	testutil.Must(t, r.build(t, id, ""))
	more := func() error {
		list, err := r.List(t.Context(), nil)
		if err == nil && len(list) != len(before)+1 {
			err = fmt.Errorf("%d images are listed, before there were %d", len(list), len(before))
		}
		return err
	}
	if !features.Supports("1.46") {
		if more() == nil {
			t.Log("visible at once, though the engine sends no event")
		}
		r.Relist() // as the service does each minute
	}
	testutil.EventuallyWithin(t, tellsWithin, "the untagged build is visible", more)
	testutil.Must(t, r.prune(t))
	testutil.EventuallyWithin(t, tellsWithin, "the image is gone after a prune", func() error {
		if more() == nil {
			return errors.New("it is listed")
		}
		return nil
	})
}

// TestRigChangeByContainerdIsFound checks that a relist finds changes by containerd's own clients. The engine sends no
// event for them.
func TestRigChangeByContainerdIsFound(t *testing.T) {
	r := newRig(t, image.Options{})
	features, err := r.engine.Features(t.Context())
	testutil.Must(t, err)
	if !features.ContainerdImageStore {
		t.Log("containerd has no images of this engine: Docker's own store holds them")
		return
	}
	r.follow(t)
	tag := name(t) + ":1"
	r.push(t, fresh(t, 1000, v1.Config{}), tag)
	full := r.env.Image(tag)
	id := r.pull(t, full)
	other := strings.TrimSuffix(full, "1") + "2"
	ctr := func(args ...string) func() error {
		return func() error {
			address := filepath.Join(filepath.Dir(r.env.DockerRoot), "exec/containerd/containerd.sock")
			args := append([]string{"--address", address, "--namespace", "moby", "images"}, args...)
			output, err := exec.CommandContext(t.Context(), "ctr", args...).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("ctr %q: %w: %s", args, err, output)
			}
			return err
		}
	}
	afterRelist := func(wanted func() bool) func() bool {
		return func() bool {
			r.Relist() // as the service does each minute
			return wanted()
		}
	}
	r.foreign(t, "ctr tag", ctr("tag", full, other),
		afterRelist(func() bool { return r.status(t, other).GetId() == id && len(r.listed(t, id)) == 2 }))
	r.foreign(t, "ctr rm of a tag", ctr("rm", other),
		afterRelist(func() bool { return r.status(t, other) == nil && len(r.listed(t, id)) == 1 }))
	r.foreign(t, "ctr rm", ctr("rm", full),
		afterRelist(func() bool { return r.status(t, full) == nil && r.listed(t, id) == nil }))
}

// TestRigOwnWritesAreVisibleAtOnce pulls and removes an image without following the engine's events.
func TestRigOwnWritesAreVisibleAtOnce(t *testing.T) {
	r := newRig(t, image.Options{})
	tag := name(t) + ":1"
	r.push(t, fresh(t, 1000, v1.Config{}), tag)
	full := r.env.Image(tag)
	_, err := r.List(t.Context(), nil)
	testutil.Must(t, err)
	for range 5 {
		id := r.pull(t, full)
		if got := r.status(t, full).GetId(); got != id || r.listed(t, id) == nil {
			t.Errorf("pulled %s, the status is %s, the list has %q", id, got, r.listed(t, id))
		}
		testutil.Must(t, r.Remove(t.Context(), spec(full)))
		testutil.Assert(t, r.status(t, full) == nil && r.listed(t, id) == nil, "after its removal the image is there")
	}
}
