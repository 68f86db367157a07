package volumemanager

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestSmallest(t *testing.T) {
	for _, test := range []struct {
		limits []int64
		want   int64
	}{{nil, 0}, {[]int64{0, 0}, 0}, {[]int64{0, 3}, 3}, {[]int64{3, 0}, 3}, {[]int64{5, 3, 0, 4}, 3}} {
		testutil.Equal(t, smallest(test.limits), test.want, "of %v", test.limits)
	}
}
