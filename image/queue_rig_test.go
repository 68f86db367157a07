package image_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// engineSlots is the number of layers that an engine downloads at once, over all pulls (max-concurrent-downloads).
const engineSlots = 3

// TestRigQueuedPullOutlivesTheDeadline pulls an image while another pull has all slots. The other pull first stalls and
// is cancelled. Then a slow one takes longer than the deadline.
func TestRigQueuedPullOutlivesTheDeadline(t *testing.T) {
	const deadline = 15 * rigenv.SlowPause // much longer than a busy machine pauses
	r := newRig(t, image.Options{PullProgressDeadline: deadline})
	r.push(t, freshLayers(t, engineSlots, 24*rigenv.SlowPiece, v1.Config{}), name(t)+"-ahead:1")
	r.push(t, fresh(t, 1000, v1.Config{}), name(t)+":1")
	behind := spec(r.env.Image(name(t) + ":1"))

	pullAhead := func(prefix string) <-chan error {
		defer time.Sleep(2 * rigenv.SlowPause)
		return testutil.Go(func() error {
			_, err := r.Pull(t.Context(), spec(r.env.Image(prefix+"/"+name(t)+"-ahead:1")), nil)
			return err
		})
	}
	ahead := pullAhead(rigenv.PrefixStalled)
	_, err := r.Pull(t.Context(), behind, nil)
	testutil.Check(t, err, "behind a pull that stalls")
	testutil.FailsWith(t, <-ahead, context.DeadlineExceeded, "the stalled pull")
	testutil.Must(t, r.Remove(t.Context(), behind))

	ahead = pullAhead(rigenv.PrefixSlow)
	begun := time.Now()
	_, err = r.Pull(t.Context(), behind, nil)
	testutil.Check(t, err, "behind a slow pull")
	took := time.Since(begun)
	testutil.Assert(t, took >= deadline, "the pull took only %s, which shows nothing", took)
	testutil.Check(t, <-ahead, "the slow pull")
}

// A pull behind another client's stalled pull fails after the deadline. Only the engine knows the progress of the other
// client's pull.
func TestRigQueuedBehindOthersEnds(t *testing.T) {
	r := newRig(t, image.Options{PullProgressDeadline: 5 * rigenv.SlowPause})
	r.push(t, freshLayers(t, engineSlots, 16*rigenv.SlowPiece, v1.Config{}), name(t)+"-ahead:1")
	r.push(t, fresh(t, 1000, v1.Config{}), name(t)+":1")
	ctx, cancel := context.WithCancel(t.Context())
	ended := testutil.Go(func() error {
		return r.engine.PullImage(ctx, r.env.Image(rigenv.PrefixStalled+"/"+name(t)+"-ahead:1"), docker.PullOptions{})
	})
	defer func() { cancel(); <-ended }()
	time.Sleep(2 * rigenv.SlowPause)
	begun := time.Now()
	_, err := r.Pull(t.Context(), spec(r.env.Image(name(t)+":1")), nil)
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "no progress"),
		"got %v, want DeadlineExceeded with \"no progress\"", err)
	took := time.Since(begun)
	testutil.Assert(t, took <= 30*time.Second, "noticed after %s", took)
}
