package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/pace"
)

const (
	// spareDescriptors is how many descriptors a process can still open during a shortage.
	spareDescriptors = 4
	// tightenPause is the time until the limit is lowered again, because the process closes some of its descriptors.
	tightenPause = 500 * time.Millisecond
)

// fewDescriptors lets criadapter open only a few more descriptors during the fault. The limit never rises meanwhile.
func (v victims) fewDescriptors(ctx context.Context, f fault) error {
	pid, err := v.serverPID()
	if err != nil {
		return err
	}
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		return fmt.Errorf("criadapter's limit of descriptors: %w", err)
	}
	limit := before
	var failed error
	end := time.Now().Add(f.Lasts)
	for ; time.Now().Before(end) && ctx.Err() == nil; _ = pace.Sleep(ctx, tightenPause) {
		var open []int
		if open, failed = descriptors(pid); failed != nil {
			break
		}
		limit.Cur = min(limit.Cur, uint64(limitLeaving(spareDescriptors, open)))
		if failed = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil); failed != nil {
			break
		}
	}
	say("criadapter could open descriptors below %d", limit.Cur)
	return errors.Join(failed, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil), v.stillRuns(pid))
}

// stillRuns returns an error if criadapter is no longer the process with this id: it ended by itself.
func (v victims) stillRuns(pid int) error {
	now, err := v.serverPID()
	if err == nil && now != pid {
		err = fmt.Errorf("criadapter is the process %d now, and was %d", now, pid)
	}
	return err
}

// serverPID returns the process id of criadapter. It fails if criadapter has ended by itself.
func (v victims) serverPID() (int, error) {
	server := v.cluster.Server.Adapter
	if pid := server.PID(); pid != 0 {
		return pid, nil
	}
	return 0, fmt.Errorf("criadapter ended by itself: %w; the end of its log:\n%s", server.ExitError(),
		server.LogTail())
}

// descriptors returns the open descriptors of a process.
func descriptors(pid int) (open []int, err error) {
	entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
	for _, entry := range entries {
		if number, err := strconv.Atoi(entry.Name()); err == nil {
			open = append(open, number)
		}
	}
	return open, err
}

// limitLeaving is the RLIMIT_NOFILE below which exactly spare descriptors are free. The limit bounds the numbers of
// descriptors, not their count.
func limitLeaving(spare int, open []int) int {
	open = slices.Sorted(slices.Values(open))
	limit := spare
	for _, number := range open {
		if number >= limit {
			break
		}
		limit++
	}
	return limit
}
