package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/checkpoint"
)

// drainAttempts is how often a failing write is tried for a container that has
// ended: nobody waits longer than that, and the container is not coming back.
const drainAttempts = 3

// follower copies the output of one container. Its goroutine alone touches the
// copier; the channels are how others speak to it.
type follower struct {
	source  Source
	options Options
	watch   *watcher
	buffers *sync.Pool
	log     *logrus.Entry

	wake   chan struct{}   // room for one: something happened in the engine's folder
	drain  chan struct{}   // closed: the container has ended, finish
	reopen chan chan error // a request to reopen the CRI log
	done   chan struct{}   // closed: the goroutine has ended
	err    error           // why it ended before it was asked to; read after done

	drainOnce sync.Once
	copy      copier
	out       *output
	at        checkpoint.LogPosition // as saved last
	watching  string                 // the folder that is watched, empty for none
	armed     bool                   // the watch has not fired
	armedAs   int                    // the watch's number
	// vanished says that the engine's current file is not there. While the
	// follower holds a file open the kernel does not tell that its folder was
	// removed.
	vanished bool
}

// askDrain lets the follower end when it has written everything out.
func (f *follower) askDrain() { f.drainOnce.Do(func() { close(f.drain) }) }

// newFollower prepares a follower; open and run make it work.
func newFollower(source Source, format format, s *Service) *follower {
	log := logrus.WithFields(logrus.Fields{"container": source.ContainerID, "log": source.LogPath})
	return &follower{
		source:  source,
		options: s.options,
		watch:   s.watch,
		buffers: &s.buffers,
		log:     log,
		wake:    make(chan struct{}, 1),
		drain:   make(chan struct{}),
		reopen:  make(chan chan error),
		done:    make(chan struct{}),
		copy:    copier{format: format, log: log, counters: &s.counters, observe: s.options.ObserveBatch},
	}
}

// open opens what the follower needs and goes to its position. On an error
// nothing is left open.
func (f *follower) open() error {
	var at checkpoint.LogPosition
	if f.source.Resume != nil {
		at = *f.source.Resume
	}
	f.at = at
	out, size, err := resumeOutput(f.source.LogPath, at)
	if err != nil {
		return err
	}
	f.out, f.copy.out = out, out
	at.OutputSize = size
	if err := f.watchFolder(); err != nil {
		f.release()
		return err
	}
	if err := f.resume(at); err != nil {
		f.release()
		return err
	}
	return nil
}

// resume goes to the saved position, if there is one.
func (f *follower) resume(at checkpoint.LogPosition) error {
	if f.source.Resume == nil {
		if f.source.Begun {
			if err := f.out.cutToLine(); err != nil {
				return err
			}
			var err error
			if f.copy.written, err = f.lastWritten(); err != nil {
				return err
			}
		}
		f.save() // what is in the CRI log was there before: not ours to cut
		return nil
	}
	if at.Inode == 0 {
		return f.out.cut(at.OutputSize)
	}
	file, g, err := openGeneration(f.source.Path, withInode(at.Inode))
	if err != nil {
		return err
	}
	switch {
	case file == nil:
	case !isSame(file, at):
		file.Close()
	case f.fits(file, at):
		f.copy.use(file, g, at.Offset)
		return f.out.cut(at.OutputSize)
	default: // emptied in place
		f.copy.use(file, g, 0)
	}
	// What was written behind the position cannot be written again: it stays.
	if err := f.out.cutToLine(); err != nil {
		return err
	}
	f.openGap()
	return nil
}

// lastWritten is the time of the last entry that is taken for written where the
// position is lost, see Source.
func (f *follower) lastWritten() (int64, error) {
	at, open := f.out.lastTime()
	if at == 0 {
		var err error
		if at, open, err = f.out.lastRotatedTime(); err != nil {
			return 0, err
		}
	}
	switch {
	case at == 0 && f.source.Ended:
		return math.MaxInt64, nil
	case open != "" && !f.source.Ended:
		return at - 1, nil // the pieces of a line have one time: rather one twice than one lost
	default:
		return at, nil
	}
}

// openGap notes that the engine dropped output before it was read.
func (f *follower) openGap() {
	f.copy.openGap()
	f.copy.gap.rate = measureRate(f.source.Path, f.copy.format)
}

// isSame reports whether file can be the one of the position: file systems give
// the inode of a dropped file to the next one at once.
func isSame(file *os.File, at checkpoint.LogPosition) bool {
	born := bornAt(file)
	return born == 0 || at.Born == 0 || born == at.Born
}

// fits reports whether file still holds what the position was taken from: the
// record that ends at the offset must be the last one in the CRI log.
func (f *follower) fits(file *os.File, at checkpoint.LogPosition) bool {
	if at.Offset == 0 {
		return true
	}
	last, ok := f.copy.format.last(file, at.Offset)
	return ok && f.out.mayEndWith(last.appendCRI(nil), at.OutputSize)
}

// run is the follower's goroutine.
func (f *follower) run(ctx context.Context) {
	defer close(f.done)
	defer f.release()
	if err := f.follow(ctx); err != nil {
		f.err = err
		f.log.WithError(err).Error("no longer following a container's output")
	}
	f.save()
}

// follow copies after each wake-up, until the container has ended, its folder
// is gone, or ctx ends.
func (f *follower) follow(ctx context.Context) error {
	failures := 0
	for {
		// Asked before the copy: what the engine wrote before the request to
		// drain is seen by the copy after it.
		draining := closed(f.drain)
		// Armed before the copy as well: what comes during it is not missed.
		if err := f.watchFolder(); err != nil {
			return err
		}
		state, err := f.catchUp(ctx, draining)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrFormat):
			return err
		case err != nil:
			failures++
			if draining && failures >= drainAttempts {
				return err
			}
			if failures == 1 {
				f.log.WithError(err).Warn("cannot copy a container's output, trying again")
			}
			f.pause(ctx, f.options.RetryPause)
			continue
		case state == ended:
			return nil
		}
		failures = 0
		if state == behind {
			f.pause(ctx, 0)
			continue
		}
		f.pause(ctx, f.options.BatchPause)
		f.wait(ctx)
	}
}

// pause waits for d, or until the follower is asked to finish. It answers
// requests to reopen meanwhile.
func (f *follower) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	drain := f.drain
	if closed(drain) {
		drain = nil // known already: only the time counts
	}
	for {
		select {
		case <-timer.C:
			return
		case <-drain:
			return
		case <-ctx.Done():
			return
		case answer := <-f.reopen:
			answer <- f.reopenOutput()
		}
	}
}

// wait returns when there may be something to copy.
func (f *follower) wait(ctx context.Context) {
	var again <-chan time.Time
	if f.vanished {
		timer := time.NewTimer(f.options.RetryPause)
		defer timer.Stop()
		again = timer.C
	}
	for {
		select {
		case <-f.wake:
			f.armed = false
			return
		case <-again:
			return
		case <-f.drain:
			return
		case <-ctx.Done():
			return
		case answer := <-f.reopen:
			answer <- f.reopenOutput()
		}
	}
}

// standing is where a follower is after a turn.
type standing int

const (
	// behind: there is more to copy now.
	behind standing = iota
	// level: everything is copied, an event will tell when there is more.
	level
	// ended: everything is copied and nothing will follow.
	ended
)

// catchUp writes out what the engine's files hold, for one turn.
func (f *follower) catchUp(ctx context.Context, draining bool) (standing, error) {
	b := f.buffers.Get().(*buffers)
	defer f.putBuffers(b)
	if f.copy.in == nil {
		if opened, err := f.openFirst(); err != nil || !opened {
			return f.idle(draining), err
		}
	}
	for ctx.Err() == nil {
		more, err := f.copy.copyOn(b, false)
		if err != nil || more {
			return behind, err
		}
		rotated, err := f.rotated()
		if err != nil {
			return behind, err
		}
		if !rotated && !draining {
			return f.idle(draining), nil
		}
		// The engine has ended or writes to another file. What it wrote to this
		// one between the copy and that is all that will ever be there.
		if _, err := f.copy.copyOn(b, true); err != nil {
			return behind, err
		}
		if !rotated {
			return ended, nil
		}
		if moved, err := f.openNext(); err != nil || !moved {
			return f.idle(draining), err
		}
	}
	return behind, nil
}

// idle is where a follower is that has nothing to copy.
func (f *follower) idle(draining bool) standing {
	if draining || f.folderGone() {
		return ended
	}
	return level
}

// putBuffers gives buffers back, unless a damaged file made them large.
func (f *follower) putBuffers(b *buffers) {
	if len(b.in) == batchSize {
		f.buffers.Put(b)
	}
}

// openFirst opens the oldest file of the engine, when there is one yet.
func (f *follower) openFirst() (bool, error) {
	file, g, err := openGeneration(f.source.Path, oldest)
	if err != nil || file == nil {
		return false, err
	}
	f.copy.use(file, g, 0)
	f.save()
	return true, nil
}

// rotated reports whether the engine writes to another file than the current.
func (f *follower) rotated() (bool, error) {
	info, err := os.Stat(f.source.Path)
	f.vanished = errors.Is(err, fs.ErrNotExist)
	if f.vanished {
		return false, nil // removed, or in the middle of a rotation
	}
	if err != nil {
		return false, fmt.Errorf("looking at the engine's log: %w", err)
	}
	return inodeOf(info) != f.copy.inode, nil
}

// openNext goes on with the file that the engine began after the current one.
func (f *follower) openNext() (bool, error) {
	lost := false
	file, g, err := openGeneration(f.source.Path, func(list []generation) *generation {
		lost = indexOf(list, f.copy.inode) < 0
		return after(f.copy.inode)(list)
	})
	if err != nil || file == nil {
		return false, err
	}
	if lost {
		f.openGap()
	}
	f.copy.use(file, g, 0)
	f.save()
	return true, nil
}

// folderGone reports whether the engine has removed the folder that is watched,
// as it does with the container.
func (f *follower) folderGone() bool {
	_, err := os.Stat(f.watching)
	return errors.Is(err, fs.ErrNotExist)
}

// watchFolder sees to it that the next change in the folder of the engine's log
// wakes the follower. The local driver makes the folder at the container's first
// start; until then the container's own folder is watched.
func (f *follower) watchFolder() error {
	if f.armed {
		return nil
	}
	folder := filepath.Dir(f.source.Path)
	err := f.arm(folder)
	if !errors.Is(err, fs.ErrNotExist) || f.watching == folder {
		return ignoreNotExist(err) // removed with the container: the next turn sees it
	}
	if f.source.Driver != DriverLocal {
		return err
	}
	above := filepath.Dir(folder)
	if err := f.arm(above); err != nil {
		if f.watching == above {
			return ignoreNotExist(err)
		}
		return err
	}
	if _, err := os.Stat(folder); err == nil {
		notify(f.wake) // it was made before the watch began
	}
	return nil
}

// arm watches a folder in the place of the one that was watched.
func (f *follower) arm(folder string) error {
	watch, err := f.watch.arm(folder, f.wake)
	if err != nil {
		return err
	}
	if f.watching != folder {
		f.watch.disarm(f.armedAs)
	}
	f.watching, f.armed, f.armedAs = folder, true, watch
	return nil
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// reopenOutput goes on in a new file at the log path. The position is saved
// before as well: a kill in between must find how the old file ended.
func (f *follower) reopenOutput() error {
	f.save()
	if err := f.out.reopen(); err != nil {
		return err
	}
	f.save()
	return nil
}

// save persists how far the output has been written, if that has changed.
func (f *follower) save() {
	if f.source.Save == nil {
		return
	}
	position := f.at
	if f.copy.in != nil {
		position.Inode, position.Born, position.Offset = f.copy.inode, f.copy.born, f.copy.mark
	}
	position.OutputInode, position.OutputSize = f.out.inode, f.out.size
	if position == f.at {
		return
	}
	if err := f.source.Save(position); err != nil {
		f.log.WithError(err).Warn("cannot save how far a container's output has been written")
		return
	}
	f.at = position
}

// release gives up everything that the follower holds.
func (f *follower) release() {
	f.watch.disarm(f.armedAs)
	f.copy.close()
	f.out.file.Close() // every write has been answered
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
