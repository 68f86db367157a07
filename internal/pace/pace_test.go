package pace

import (
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestAfter(t *testing.T) {
	pace := Pace{Shortest: 10 * time.Second, Longest: 4 * time.Minute}
	for took, want := range map[time.Duration]time.Duration{
		0:                      10 * time.Second,
		100 * time.Millisecond: 10 * time.Second,
		time.Second:            50 * time.Second,
		time.Minute:            4 * time.Minute,
		10 * time.Minute:       30 * time.Minute,
	} {
		testutil.Equal(t, pace.After(took), want, "the pause after %v", took)
	}
}
