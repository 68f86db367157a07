package usage

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestCPUTimeIsWhatAProcessUses: the CPU time grows while the process works, and not while it sleeps.
func TestCPUTimeIsWhatAProcessUses(t *testing.T) {
	self := []int{os.Getpid()}
	before, err := CPUTime(self)
	testutil.Must(t, err)
	for began := time.Now(); time.Since(began) < 20*time.Millisecond; {
	}
	after, err := CPUTime(self)
	testutil.Assert(t, err == nil && after > before, "CPU time went from %v to %v, %v", before, after, err)
	idle := exec.Command("sleep", "60")
	testutil.Must(t, idle.Start())
	defer func() { _ = idle.Process.Kill(); _ = idle.Wait() }()
	time.Sleep(20 * time.Millisecond)
	used, err := CPUTime([]int{idle.Process.Pid})
	testutil.Assert(t, err == nil && used <= time.Second, "a sleeping process used %v, %v", used, err)
	both, err := CPUTime([]int{os.Getpid(), idle.Process.Pid})
	testutil.Assert(t, err == nil && both >= after,
		"both processes used %v, %v; this process alone used %v", both, err, after)
}

func TestMemoryOf(t *testing.T) {
	got, err := MemoryOf([]int{os.Getpid()})
	testutil.Assert(t, err == nil && got.RSSAnon > 0 && got.RSS >= got.RSSAnon, "got %+v, %v", got, err)
	twice, err := MemoryOf([]int{os.Getpid(), os.Getpid()})
	testutil.Assert(t, err == nil && twice.RSS >= got.RSS*3/2, "one process counted twice is %+v, %v", twice, err)
}

// Engine finds a child only if both its name and its parent match.
func TestEngineFindsChildren(t *testing.T) {
	got, err := Engine(os.Getpid())
	testutil.Assert(t, err == nil && len(got) == 1 && got[0] == os.Getpid(), "without a containerd: %v, %v", got, err)
	path := t.TempDir() + "/containerd"
	sleep, err := exec.LookPath("sleep")
	if err == nil {
		err = os.Symlink(sleep, path)
	}
	testutil.Must(t, err)
	child := exec.Command(path, "60")
	testutil.Must(t, child.Start())
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	if got, err := Engine(os.Getpid()); err != nil || len(got) != 2 || got[1] != child.Process.Pid {
		t.Errorf("with one: %v, %v; want %d, too", got, err, child.Process.Pid)
	}
}

// TestProportionalMemory checks that the proportional memory is at most a little more than the resident memory.
func TestProportionalMemory(t *testing.T) {
	child := exec.Command("sleep", "60")
	testutil.Must(t, child.Start())
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	parents, err := Parents()
	testutil.Assert(t, err == nil && parents[child.Process.Pid] == os.Getpid(),
		"the parent of %d is %d, %v", child.Process.Pid, parents[child.Process.Pid], err)
	held, err := ProportionalMemory([]int{os.Getpid()})
	whole, wholeErr := MemoryOf([]int{os.Getpid()})
	testutil.Assert(t, err == nil && wholeErr == nil && held > 0 && held <= whole.RSS+whole.RSS/4,
		"%d of %d KiB, %v, %v", held, whole.RSS, err, wholeErr)
	_, err = rolledUp("Rss: 12 kB\n", "Pss")
	testutil.Assert(t, err != nil, "a line that is not there was read")
}
