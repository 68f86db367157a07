package stats

import (
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestCPURate(t *testing.T) {
	const second = uint64(time.Second)
	type sample struct {
		after time.Duration // since the start of the test
		usage uint64
		want  int64 // -1 for unknown
	}
	for name, test := range map[string]struct {
		started time.Duration // 0 for unknown
		samples []sample
	}{
		"first sample at an old container": {0, []sample{{0, 100, -1}}},
		"second sample, quickly":           {0, []sample{{0, 0, -1}, {quickWindow, second / 10, int64(second)}}},
		"another client at the same time": {0, []sample{
			{0, 0, -1}, {time.Millisecond, uint64(4 * time.Millisecond), -1},
			{quickWindow + time.Millisecond, uint64(quickWindow + time.Millisecond), int64(second)}}},
		"a young container":        {-10 * time.Second, []sample{{0, 5 * second, int64(second / 2)}}},
		"a container of last week": {-7 * 24 * time.Hour, []sample{{0, 5 * second, -1}}},
		"steady calls": {0, []sample{
			{0, 0, -1}, {10 * time.Second, 10 * second, int64(second)}, {20 * time.Second, 10 * second, 0},
			{30 * time.Second, 15 * second, int64(second / 2)},
		}},
		"two clients in turn do not shorten the window": {0, []sample{
			{0, 0, -1}, {10 * time.Second, 10 * second, int64(second)},
			{10*time.Second + time.Millisecond, 10*second + 1, int64(second) * 10000 / 10001},
		}},
		"a long silence": {0,
			[]sample{{0, 0, -1}, {2 * maxWindow, second, -1}, {2*maxWindow + time.Second, 2 * second, int64(second)}}},
		"made anew": {0,
			[]sample{{0, 5 * second, -1}, {time.Second, second, -1}, {2 * time.Second, 2 * second, int64(second)}}},
		"the clock jumps": {0, []sample{{0, 0, -1}, {-time.Second, second, -1}, {0, 2 * second, int64(second)}}},
		"nothing passed":  {0, []sample{{0, 0, -1}, {0, 0, -1}}},
	} {
		t.Run(name, func(t *testing.T) {
			origin := time.Unix(1700000000, 0)
			var rate cpuRate
			if test.started != 0 {
				rate.begin(origin.Add(test.started))
			}
			for i, sample := range test.samples {
				got, ok := rate.next(cpuSample{origin.Add(sample.after), sample.usage})
				if ok != (sample.want >= 0) || ok && (int64(got) < sample.want-1 || int64(got) > sample.want+1) {
					t.Errorf("sample %d: %d, %v, want %d", i, got, ok, sample.want)
				}
			}
		})
	}
}

func FuzzCPURate(f *testing.F) {
	f.Add(int64(1), uint64(1), int64(2), uint64(2))
	f.Add(int64(-1), uint64(1<<63), int64(1), uint64(1<<64-1))
	f.Fuzz(func(t *testing.T, at1 int64, usage1 uint64, at2 int64, usage2 uint64) {
		var rate cpuRate
		rate.begin(time.Unix(0, at1))
		rate.next(cpuSample{time.Unix(0, at2), usage1})
		got, ok := rate.next(cpuSample{time.Unix(0, at1), usage2})
		testutil.Assert(t, ok || got == 0, "unknown, but %d", got)
	})
}
