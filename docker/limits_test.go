package docker

import (
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// limitKinds is the number of limits that the kernel has, RLIM_NLIMITS.
const limitKinds = 16

func TestReadLimits(t *testing.T) {
	got := readLimits("/proc/self")
	testutil.Require(t, len(got) == limitKinds, "%d limits of this process, want %d: %+v", len(got), limitKinds, got)
	var want unix.Rlimit
	testutil.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &want))
	testutil.Assert(t, slices.Contains(got, Limit{Name: "nofile", Soft: int64(want.Cur), Hard: int64(want.Max)}),
		"the kernel says %+v for nofile, read %+v", want, got)
	got = readLimits(t.TempDir())
	testutil.Assert(t, got == nil, "limits of no process: %+v", got)
}

func TestParseLimits(t *testing.T) {
	const text = "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max stack size            8388608              unlimited            bytes     \n" +
		"Max nice priority         0                    5                    \n" +
		"Max open files            18446744073709551614 18446744073709551615 files     \n" +
		"Max processes             many                 few                  processes \n" +
		"Max cpu time              1\n" +
		"Max new kind of limit     1                    2                    new       \n"
	want := []Limit{
		{Name: "nice", Soft: 0, Hard: 5},
		{Name: "nofile", Soft: Unlimited, Hard: Unlimited},
		{Name: "stack", Soft: 8 << 20, Hard: Unlimited},
	}
	got := parseLimits(text)
	testutil.Assert(t, slices.Equal(got, want), "got %+v, want %+v", got, want)
}

func TestReadMaxOpenFiles(t *testing.T) {
	proc := t.TempDir()
	testutil.Equal(t, readMaxOpenFiles(proc), 0, "without the file")
	testutil.WriteFile(t, filepath.Join(proc, "sys/fs/nr_open"), "1000000\n")
	testutil.Equal(t, readMaxOpenFiles(proc), 1_000_000, "the kernel's highest limit of open files")
}

// TestWitness shows whose limits count: dockerd's, or this process's if another program has the socket.
func TestWitness(t *testing.T) {
	proc := t.TempDir()
	for pid, name := range map[int]string{7: "dockerd", 1: "systemd"} {
		testutil.WriteFile(t, filepath.Join(proc, strconv.Itoa(pid), "comm"), name+"\n")
	}
	for pid, want := range map[int]string{7: "7", 1: "self", 9: "self", 0: "self"} {
		testutil.Equal(t, witness(proc, pid), filepath.Join(proc, want), "the witness for process %d", pid)
	}
}

func FuzzParseLimits(f *testing.F) {
	f.Add("Max stack size            8388608              unlimited            bytes     \n")
	f.Add("Max nice priority 0 -1\nMax nice priority")
	f.Add("Max cpu time  unlimited")
	f.Fuzz(func(t *testing.T, text string) {
		for i, limit := range parseLimits(text) {
			testutil.Assert(t, limit.Soft >= Unlimited && limit.Hard >= Unlimited && i < limitKinds,
				"%q has the limit %+v", text, limit)
		}
	})
}
