package logs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/checkpoint"
)

// stuckAttempts is how often a failing write is tried before nobody waits any longer for the log of a container that
// has ended. The follower goes on trying.
const stuckAttempts = 3

// follower copies the output of one container. Its goroutine alone touches the
// copier; the channels are how others speak to it.
type follower struct {
	source  Source
	options Options
	watch   *watcher
	buffers *sync.Pool
	ctx     context.Context // carries log, for what is asked to save
	log     *log.Entry

	wake   chan struct{}   // room for one: something happened in the engine's directory
	drain  chan struct{}   // closed: the container has ended, finish
	reopen chan chan error // a request to reopen the CRI log
	stuck  chan struct{}   // closed: it cannot finish for now, because of stuckBy
	done   chan struct{}   // closed: the goroutine has ended

	stuckBy error // read after stuck
	err     error // why it ended before it was asked to; read after done

	drainOnce sync.Once
	copy      copier
	out       *output
	at        checkpoint.LogPosition // as saved last
	next      successor
	watching  watching
	busy      bool // there was more to copy soon after the last copy
	// vanished says that the engine's current file is not there. While the follower holds a file open the kernel does
	// not tell that its directory was removed.
	vanished bool
}

// askDrain lets the follower end when it has written everything out.
func (f *follower) askDrain() { f.drainOnce.Do(func() { close(f.drain) }) }

// newFollower prepares a follower; open and run make it work.
func newFollower(source Source, format format, s *Service) *follower {
	logger := log.G(s.ctx).WithFields(log.Fields{"containerID": source.ContainerID, "logPath": source.LogPath})
	return &follower{
		source:  source,
		options: s.options,
		watch:   s.watch,
		buffers: &s.buffers,
		ctx:     log.WithLogger(s.ctx, logger),
		log:     logger,
		wake:    make(chan struct{}, 1),
		drain:   make(chan struct{}),
		reopen:  make(chan chan error),
		stuck:   make(chan struct{}),
		done:    make(chan struct{}),
		copy:    copier{format: format, log: logger, counters: &s.counters, observe: s.options.ObserveBatch},
	}
}

// run is the follower's goroutine.
func (f *follower) run(ctx context.Context) {
	defer close(f.done)
	defer f.release()
	if err := f.follow(ctx); err != nil {
		f.err = err
		f.log.WithError(err).Error("container log is not written any more")
	}
	f.save()
}

// follow copies after each wake-up, until the container has ended, its directory is gone, or ctx ends.
func (f *follower) follow(ctx context.Context) error {
	failures := 0
	for {
		// Asked before the copy: what the engine wrote before the request to drain is seen by the copy after it.
		draining := closed(f.drain)
		// Armed before the copy as well: what comes during it is not missed.
		err := f.watchDir()
		var state standing
		if err == nil {
			state, err = f.catchUp(ctx, draining)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errFormat):
			return err
		case err != nil:
			failures++
			if f.failed(err, failures, draining) {
				return err
			}
			f.pause(ctx, f.options.retryPause)
			continue
		case state == ended:
			return nil
		}
		failures = 0
		if state == behind {
			f.pause(ctx, 0)
			continue
		}
		f.rest(ctx)
	}
}

// rest returns when there may be something to copy, but where that is so at once not before batchPause. If it was so the
// last time, too, it sleeps first: the follower of a busy container is woken once for each copy, and that of a quiet one
// once for each line.
func (f *follower) rest(ctx context.Context) {
	copied := time.Now()
	if f.busy {
		f.pause(ctx, f.options.batchPause)
	}
	f.busy = f.wait(ctx) && time.Since(copied) < 2*f.options.batchPause
	if f.busy && !closed(f.drain) {
		f.pause(ctx, f.options.batchPause-time.Since(copied))
	}
}

// failed notes that a copy has failed so many times in a row. It reports true when nobody needs the log any more.
func (f *follower) failed(err error, failures int, draining bool) bool {
	if failures == 1 {
		f.log.WithError(err).Warn("cannot write container log, trying again")
	}
	if !draining || failures < stuckAttempts {
		return false
	}
	if !closed(f.stuck) {
		f.stuckBy = err
		close(f.stuck)
	}
	// While the container is there its log may still be completed. Afterwards the file that is held open would only
	// keep its disk full.
	return f.dirGone()
}

// pause waits for d, not at all if that is negative, or until the follower is asked to finish. It answers requests to
// reopen meanwhile.
func (f *follower) pause(ctx context.Context, d time.Duration) {
	if d < 0 {
		return
	}
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

// wait returns when there may be something to copy, and reports whether a change in the directory says so.
func (f *follower) wait(ctx context.Context) (changed bool) {
	var again <-chan time.Time
	if f.vanished || !f.watching.armed {
		timer := time.NewTimer(f.options.lookPeriod)
		defer timer.Stop()
		again = timer.C
	}
	for {
		select {
		case <-f.wake:
			f.watching.armed = false
			return true
		case <-again:
			return false
		case <-f.drain:
			return false
		case <-ctx.Done():
			return false
		case answer := <-f.reopen:
			answer <- f.reopenOutput()
		}
	}
}

// reopenOutput goes on in a new file at the log path. The position is saved
// before as well: a kill in between must find how the old file ended.
func (f *follower) reopenOutput() error {
	f.save()
	compared := f.out.size == f.out.end
	if !compared {
		// The rest of what is there is not written a second time to the new file.
		if err := f.out.cut(f.out.linesEnd()); err != nil {
			return err
		}
		if p := f.out.search(); p.until != 0 { // otherwise the last entry is elsewhere, or there is none
			f.copy.passing = p
		}
	}
	reopened, err := f.out.reopen()
	if err != nil || !reopened {
		return err
	}
	if !compared {
		f.copy.passing.elsewhere = true
	}
	f.save()
	return nil
}

// save persists how far the output has been written, if that has changed. While entries are passed over that are in
// another file it does not: from a position in front of them the next follower would write them again, where without one
// it searches, too.
func (f *follower) save() {
	if f.source.Save == nil || f.copy.passing.elsewhere && f.copy.passing.until != 0 {
		return
	}
	position := f.at
	if f.copy.in != nil {
		position.Inode, position.Born = f.copy.inode, f.copy.born
		position.Offset, position.Time = f.copy.mark, f.copy.markedAt
	}
	position.OutputInode, position.OutputSize = f.out.inode, f.out.size
	if position == f.at {
		return
	}
	// First the log: a position that outlives a power cut must not tell of output that does not, or the next follower goes
	// on behind what is missing.
	if err := f.options.sync(f.out.file); err != nil {
		f.log.WithError(err).Warn("cannot save position of container log, which is not on the disk")
		return
	}
	if err := f.source.Save(f.ctx, position); err != nil {
		f.log.WithError(err).Warn("cannot save position of container log")
		return
	}
	f.at = position
}

// release gives up everything that the follower holds.
func (f *follower) release() {
	f.unwatch()
	f.copy.close()
	f.out.file.Close() // every write has been answered
}

// result is why the log of a container that has ended is not complete, nil when it is.
func (f *follower) result(ctx context.Context) error {
	select {
	case <-f.done:
	case <-f.stuck:
	case <-ctx.Done():
	}
	switch {
	case closed(f.done):
		return f.err
	case closed(f.stuck):
		return fmt.Errorf("not complete yet: %w", f.stuckBy)
	default:
		return fmt.Errorf("not complete yet: %w", ctx.Err())
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
