package stats

import (
	"testing"
	"time"
)

func TestCPURate(t *testing.T) {
	const second = uint64(time.Second)
	type look struct {
		after time.Duration // since the start of the test
		usage uint64
		want  int64 // -1 for unknown
	}
	for name, test := range map[string]struct {
		started time.Duration // 0 for unknown
		looks   []look
	}{
		"first look at an old container": {0, []look{{0, 100, -1}}},
		"second look, quickly":           {0, []look{{0, 0, -1}, {quickWindow, second / 10, int64(second)}}},
		"a young container":              {-10 * time.Second, []look{{0, 5 * second, int64(second / 2)}}},
		"a container of last week":       {-7 * 24 * time.Hour, []look{{0, 5 * second, -1}}},
		"steady calls": {0, []look{
			{0, 0, -1}, {10 * time.Second, 10 * second, int64(second)}, {20 * time.Second, 10 * second, 0}, {30 * time.Second, 15 * second, int64(second / 2)},
		}},
		"two clients in turn do not shorten the window": {0, []look{
			{0, 0, -1}, {10 * time.Second, 10 * second, int64(second)}, {10*time.Second + time.Millisecond, 10*second + 1, int64(second) * 10000 / 10001},
		}},
		"a long silence":  {0, []look{{0, 0, -1}, {2 * maxWindow, second, -1}, {2*maxWindow + time.Second, 2 * second, int64(second)}}},
		"made anew":       {0, []look{{0, 5 * second, -1}, {time.Second, second, -1}, {2 * time.Second, 2 * second, int64(second)}}},
		"the clock jumps": {0, []look{{0, 0, -1}, {-time.Second, second, -1}, {0, 2 * second, int64(second)}}},
		"nothing passed":  {0, []look{{0, 0, -1}, {0, 0, -1}}},
	} {
		t.Run(name, func(t *testing.T) {
			origin := time.Unix(1700000000, 0)
			var rate cpuRate
			if test.started != 0 {
				rate.begin(origin.Add(test.started))
			}
			for i, look := range test.looks {
				got, ok := rate.next(cpuSample{origin.Add(look.after), look.usage})
				if ok != (look.want >= 0) || ok && (int64(got) < look.want-1 || int64(got) > look.want+1) {
					t.Errorf("look %d: %d, %v, want %d", i, got, ok, look.want)
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
		if !ok && got != 0 {
			t.Errorf("unknown, but %d", got)
		}
	})
}
