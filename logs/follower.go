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

// stuckAttempts is the number of failed writes after which Drain stops waiting for the log of an ended container. The
// follower keeps trying.
const stuckAttempts = 3

// follower copies the output of one container. Only its goroutine uses the copier. Other goroutines use the channels.
type follower struct {
	source  Source
	options Options
	watch   *watcher
	buffers *sync.Pool
	ctx     context.Context // has the logger, for Save
	log     *log.Entry

	wake   chan struct{}   // room for one: a change in the engine's directory
	drain  chan struct{}   // closed: the container has ended, finish
	reopen chan chan error // a request to reopen the CRI log
	stuck  chan struct{}   // closed: the follower cannot finish yet
	done   chan struct{}   // closed: the goroutine has ended

	stuckBy error // the cause; read after stuck
	err     error // the error that ended the goroutine; read after done

	drainOnce sync.Once
	copy      copier
	out       *output
	at        checkpoint.LogPosition // as saved last
	next      successor
	watching  watching
	// vanished says that the engine's current file does not exist. While the follower holds a file open, the kernel
	// does not report the removal of the file's directory. So the follower then looks for the directory every
	// Options.lookPeriod.
	vanished bool
}

// askDrain makes the follower end when all output is written.
func (f *follower) askDrain() { f.drainOnce.Do(func() { close(f.drain) }) }

// newFollower prepares a follower. open and run start it.
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
		// Checked before the copy, so that the copy includes output from before the request to drain.
		draining := closed(f.drain)
		// Armed before the copy, so that no change during the copy is missed.
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
		f.wait(ctx)
	}
}

// failed handles a failed copy. failures is the number of consecutive failed copies. It returns true if the log is no
// longer needed.
func (f *follower) failed(err error, failures int, draining bool) bool {
	if failures == 1 {
		f.log.WithError(err).Warn("cannot copy engine log to container log, trying again")
	}
	if !draining || failures < stuckAttempts {
		return false
	}
	if !closed(f.stuck) {
		f.stuckBy = err
		close(f.stuck)
	}
	// The follower can complete the log while the container exists. After the removal, its open file would only keep
	// the deleted log on the disk.
	return f.dirGone()
}

// pause waits for d, or until the follower must finish. It serves requests to reopen the log meanwhile.
func (f *follower) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	drain := f.drain
	if closed(drain) {
		drain = nil // the request to drain was seen before
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

// wait returns when there may be output to copy, or the follower must finish. It serves requests to reopen the log
// meanwhile.
func (f *follower) wait(ctx context.Context) {
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

// reopenOutput continues in a new file at the log path. It saves the position before and after. After a kill in
// between, the next follower needs the end of the old file.
func (f *follower) reopenOutput() error {
	f.save()
	compared := f.out.size == f.out.end
	if !compared {
		// The old log may have entries that were not compared yet. They stay there and are not written to the new log.
		if err := f.out.cut(f.out.linesEnd()); err != nil {
			return err
		}
		if p := f.out.search(); p.last != 0 { // otherwise the last entry, if any, is in an older file
			f.copy.passing = p
		}
	}
	reopened, err := f.out.reopen()
	if err != nil || !reopened {
		return err
	}
	if !compared {
		f.copy.passing.otherFile = true
	}
	f.save()
	return nil
}

// save persists the position if it has changed. It does not save while entries of another file are skipped: from a
// position before these entries, the next follower would write them again. Without a position, the next follower
// searches for its place.
func (f *follower) save() {
	if f.source.Save == nil || f.copy.passing.otherFile && f.copy.passing.last != 0 {
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
	// The log is synced first. If a saved position covered output that a power cut takes, the next follower would skip
	// that output.
	if err := f.options.sync(f.out.file); err != nil {
		f.log.WithError(err).Warn("cannot sync container log, its position is not saved")
		return
	}
	if err := f.source.Save(f.ctx, position); err != nil {
		f.log.WithError(err).Warn("cannot save position of container log")
		return
	}
	f.at = position
}

// release closes the follower's files.
func (f *follower) release() {
	f.unwatch()
	f.copy.close()
	f.out.file.Close() // each write has returned its own error
}

// result waits until the log of an ended container is complete or stuck, or ctx ends. It returns nil for a complete
// log, else the reason.
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
