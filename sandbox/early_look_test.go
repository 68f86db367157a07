package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// While the engine hangs, many pods poll for the network namespaces of their sandboxes. The polling must not take CPU
// time that the engine needs.
func TestLookingForANamespaceCostsLittle(t *testing.T) {
	for during, most := range map[time.Duration]int{
		100 * time.Millisecond: 100,
		time.Second:            150,
		time.Minute:            800,
		4 * time.Minute:        2600,
	} {
		t.Run(during.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "cgroup.procs")
				testutil.Must(t, os.WriteFile(file, nil, 0o600))
				looks := countOpens(t, file)
				e := &earlyJoin{started: make(chan struct{})}
				go func() { time.Sleep(during); e.startReturned() }()
				testutil.Equal(t, e.look(t.Context(), file), 0, "found process")
				got := looks()
				testutil.Assert(t, got <= most && got != 0, "%d looks, want at most %d", got, most)
			})
		})
	}
}

// A namespace is found within 2 ms, or within a tenth of the time that it took to appear.
func TestNamespaceIsFoundSoon(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		dir := n.TempDir()
		for _, after := range []time.Duration{5 * time.Millisecond, 45 * time.Millisecond, time.Second, time.Minute} {
			file := filepath.Join(dir, after.String())
			n.engine.newProcess(file)
			pid := n.engine.processes[file].cmd.Process.Pid
			e := &earlyJoin{started: make(chan struct{})}
			go func() {
				time.Sleep(after)
				n.must(os.WriteFile(file, []byte(strconv.Itoa(pid)), 0o600))
			}()
			begun := time.Now()
			testutil.Equal(n, e.look(n.Context(), file), pid, "found")
			late := time.Since(begun) - after
			if most := max(2*time.Millisecond, after/10); late > most {
				n.Errorf("a namespace that appears after %v is found %v later, want at most %v", after, late, most)
			}
		}
	})
}

// countOpens counts how often a file is opened from now on. It counts no more than some thousand.
func countOpens(t *testing.T, file string) func() int {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	testutil.Must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	// Equal events in a row are merged. So the watch includes closings, which separate the openings.
	_, err = unix.InotifyAddWatch(fd, file, unix.IN_OPEN|unix.IN_CLOSE_NOWRITE)
	testutil.Must(t, err)
	return func() (opens int) {
		buffer := make([]byte, 1<<20)
		for {
			n, err := unix.Read(fd, buffer)
			if err != nil || n <= 0 {
				return opens
			}
			for at := 0; at < n; {
				event := (*unix.InotifyEvent)(unsafe.Pointer(&buffer[at]))
				if event.Mask&unix.IN_OPEN != 0 {
					opens++
				}
				at += unix.SizeofInotifyEvent + int(event.Len)
			}
		}
	}
}
