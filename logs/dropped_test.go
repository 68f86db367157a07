package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// fillDisk leaves no room on a small disk until the returned function is called.
func fillDisk(t *testing.T, disk string) (free func()) {
	t.Helper()
	file, err := os.Create(filepath.Join(disk, "fill"))
	for err == nil {
		_, err = file.Write(make([]byte, 1024))
	}
	return func() {
		t.Helper()
		testutil.Check(t, file.Truncate(0))
		file.Close()
	}
}

// A follower that has fallen behind holds the engine's oldest file open while the engine drops that file. The next file
// still exists, so nothing is missing.
func TestDroppedFileThatIsHeldIsNoGap(t *testing.T) {
	for _, ahead := range []int{1, 2} { // files between the dropped one and the engine's current one
		t.Run(fmt.Sprint(ahead, " ahead"), func(t *testing.T) {
			o, disk := followOnSmallDisk(t, ahead+1, 1<<20)
			want := o.engine.lines(1, 3)
			o.wait(3)
			free := fillDisk(t, disk)
			want = append(want, o.engine.lines(4, 200)...) // more than a page
			for i := range ahead + 1 {
				o.engine.rotate()
				want = append(want, o.engine.lines(i*200+201, i*200+400)...)
				awaitSuccessor(t, o.s.follower("c"))
			}
			free()
			o.want(want)
			o.wantNoGap()
		})
	}
}

// needBirthTimes skips a test on file systems that keep no time of a file's creation.
func needBirthTimes(t *testing.T) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	testutil.Must(t, err)
	defer file.Close()
	if bornAt(file) == 0 {
		t.Skip("the file system has no birth times")
	}
}

// With max-file=1 the engine removes its file and makes another one. The follower holds the old one.
func TestReplacedFileIsNoGap(t *testing.T) {
	needBirthTimes(t)
	o := follow(t, 1, 1<<20)
	var want []string
	for i := range 3 {
		want = append(want, o.engine.lines(i*10+1, i*10+10)...)
		o.wait(len(want))
		began := time.Now()
		o.engine.rotate()
		if time.Since(began) >= replaceTime {
			t.Log("this machine is too slow for the test")
			return
		}
	}
	o.want(want)
	o.wantNoGap()
}

// The engine made and removed files between the file that the follower holds open and the engine's present file. Their
// lines are a gap.
func TestReplacedTwiceIsAGap(t *testing.T) {
	needBirthTimes(t)
	o, disk := followOnSmallDisk(t, 1, 1<<20)
	o.engine.lines(1, 3)
	o.wait(3)
	free := fillDisk(t, disk)
	for i := range 2 {
		o.engine.lines(i*200+4, i*200+203)
		time.Sleep(2 * replaceTime)
		o.engine.rotate()
	}
	o.engine.lines(404, 405)
	free()
	o.drain()
	oneMarker(t, o.log())
}

// awaitSuccessor waits until a follower whose writes fail has found the file after the one that it holds open.
func awaitSuccessor(t *testing.T, f *follower) {
	t.Helper()
	testutil.Until(t, "the follower finds the next file", func() bool {
		release := hold(t, f)
		defer release()
		return f.next != (successor{})
	})
}

// If the engine has dropped the next file, too, output is missing.
func TestDroppedSuccessorIsAGap(t *testing.T) {
	o, disk := followOnSmallDisk(t, 2, 1<<20)
	o.engine.lines(1, 3)
	o.wait(3)
	free := fillDisk(t, disk)
	for i := range 4 {
		o.engine.lines(i*200+4, i*200+203)
		time.Sleep(50 * time.Millisecond)
		o.engine.rotate()
	}
	o.engine.lines(804, 805)
	free()
	o.drain()
	lines := oneMarker(t, o.log())
	testutil.Assert(t, len(lines) < 805 && lines[len(lines)-1] == "stdout F line 805",
		"%d lines, the last is %q", len(lines), lines[len(lines)-1])
}

// TestDroppedFileThatIsHeldIsNoGap on the real engine.
func TestRigDroppedFileThatIsHeldIsNoGap(t *testing.T) {
	const bursts, burst = 4, 60
	options := map[string]string{"max-size": "7k", "max-file": "3", "compress": "false", "mode": "blocking"}
	// A burst fills one file: 60 records of at least 117 bytes each. The last burst makes the engine drop the first
	// file.
	script := fmt.Sprintf(
		`sleep 1; i=0; while [ $i -lt %d ]; do i=$((i+1)); printf 'line %%08d %%085d\n' $i 0; [ $((i %% %d)) -ne `+
			`0 ] || sleep 0.5; done`,
		bursts*burst, burst)
	c := newRigContainer(t, DriverLocal, options, false, script)
	disk := smallDisk(t)
	c.source.LogPath = filepath.Join(disk, "0.log")
	s := newService(t)
	start(t, s, c.source)
	free := fillDisk(t, disk)
	c.start()
	testutil.Eventually(t, func() error {
		_, err := os.Stat(c.source.Path + ".2")
		return err
	})
	inode := s.follower(c.id).copy.inode // of the first file; the follower waits for room
	testutil.Eventually(t, func() error {
		list, err := generations(c.source.Path)
		if err == nil && indexOf(list, inode) >= 0 {
			err = fmt.Errorf("the engine still has the first file: %v", list)
		}
		return err
	})
	free()
	c.wait()
	drain(t, s, c.id)
	want := make([]string, bursts*burst)
	for i := range want {
		want[i] = fmt.Sprintf("stdout F line %08d %085d", i+1, 0)
	}
	equalLines(t, c.log(), want)
}
