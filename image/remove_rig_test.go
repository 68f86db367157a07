package image_test

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/internal/testutil"
)

// TestRigInterruptedRemovalIsWholeOrNothing interrupts a removal after the engine's first change. The image must then
// have all its names, or be gone.
func TestRigInterruptedRemovalIsWholeOrNothing(t *testing.T) {
	r := newRig(t, image.Options{})
	for what, tags := range map[string][]string{
		"one name":         {name(t) + "-single:1"},
		"two tags":         {name(t) + "-tags:1", name(t) + "-tags:2"},
		"two repositories": {name(t) + "-one:1", name(t) + "-two:1"},
	} {
		r.push(t, fresh(t, 1000, v1.Config{}), tags...)
		var id string
		for _, tag := range tags {
			id = r.pull(t, r.env.Image(tag))
		}
		before := r.status(t, id)
		service, err := image.New(image.Options{Engine: &dying{Engine: r.engine}})
		testutil.Must(t, err)
		err = service.Remove(t.Context(), spec(id))
		service.Close()
		after := r.status(t, id)
		if after != nil &&
			(len(after.GetRepoTags()) != len(before.GetRepoTags()) ||
				len(after.GetRepoDigests()) != len(before.GetRepoDigests())) {
			t.Errorf("%s: before %v, after a removal that ended with %v: %v", what, before, err, after)
		}
	}
}
