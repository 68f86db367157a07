package speed

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestStartTime(t *testing.T) {
	took, err := StartTime(t.Context())
	testutil.Assert(t, err == nil && took > 0, "a start took %v, %v", took, err)
}

// A few starts that were interrupted do not count.
func TestMedian(t *testing.T) {
	calls := 0
	got, err := medianOf(func() (time.Duration, error) {
		if calls++; calls%4 == 0 {
			return time.Minute, nil
		}
		return time.Duration(calls) * time.Millisecond, nil
	})
	testutil.Assert(t, err == nil && got >= Slow && got < starts*time.Millisecond, "got %v, %v", got, err)
	_, err = medianOf(func() (time.Duration, error) { return 0, errors.New("no such program") })
	testutil.Assert(t, err != nil, "an error is ignored")
}

func TestScale(t *testing.T) {
	for start, want := range map[time.Duration]time.Duration{
		usualStart / 2:  time.Second,
		usualStart:      time.Second,
		Slow:            5 * time.Second,
		20 * usualStart: 20 * time.Second,
	} {
		testutil.Equal(t, scale(time.Second, start), want, "a limit of one second where a start takes %v", start)
	}
}

// recorder is a test that only records its failure.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Errorf(format string, _ ...any) { r.text = format }

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		took, limit time.Duration
		fails       bool
	}{
		"in time":      {time.Second, time.Second, false},
		"far too late": {24 * time.Hour, time.Millisecond, true}, // too late on any machine
	} {
		test := &recorder{TB: t}
		Check(test, "the answer", c.took, c.limit)
		testutil.Equal(t, strings.Contains(test.text, "want at most"), c.fails, "%s", name)
	}
}
