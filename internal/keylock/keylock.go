// Package keylock gives a lock per key, for example one per pod and one per container. Holders of one key run one at a
// time. Holders of different keys never wait for each other.
//
// Unlike with a sync.Mutex, a caller can wait for a lock with a context: a call whose caller is gone does not queue
// behind a slow engine. Waiters of one key get the lock in the order in which they came. A key costs memory only while
// its lock is held or waited for.
//
// This package exists because moby/locker and k8s.io/utils/keymutex cannot give up a wait, and
// golang.org/x/sync/semaphore has no keys.
package keylock

import (
	"context"
	"fmt"
	"sync"
)

// Locks is a set of locks, one per key. The zero value is ready to use and all methods are safe for concurrent use. A
// Locks must not be copied after first use.
//
// A lock is not reentrant: a caller that locks a key again before unlocking it waits until its own context ends.
type Locks struct {
	mu   sync.Mutex
	keys map[string]*keyLock
}

// keyLock is the lock of one key.
type keyLock struct {
	// token holds one value while the lock is free. The runtime hands a value to the receiver that has waited longest.
	// A newcomer finds the channel empty as long as receivers wait, so it queues behind them.
	token chan struct{}
	// users counts the holder and the waiters, guarded by Locks.mu.
	users int
}

// Lock waits until the lock of key is free, takes it, and returns the function that releases it. The function may be
// called from any goroutine and more than once. Only the first call counts, so a caller can defer it and still release
// early.
//
// If ctx ends first, Lock does not take the lock and returns an error that wraps ctx.Err(). An ended ctx never gets a
// lock, not even a free one.
func (l *Locks) Lock(ctx context.Context, key string) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, waitError(key, err)
	}
	k := l.join(key)
	select {
	case <-k.token:
		return sync.OnceFunc(func() {
			k.token <- struct{}{}
			l.leave(key, k)
		}), nil
	case <-ctx.Done():
		l.leave(key, k)
		return nil, waitError(key, ctx.Err())
	}
}

// join returns the lock of key and counts the caller. It makes the lock if key has none.
func (l *Locks) join(key string) *keyLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keys[key]
	if k == nil {
		k = &keyLock{token: make(chan struct{}, 1)}
		k.token <- struct{}{}
		if l.keys == nil {
			l.keys = make(map[string]*keyLock)
		}
		l.keys[key] = k
	}
	k.users++
	return k
}

// leave uncounts a caller of join and forgets the key after the last one. The token has been put back by then, so no
// caller is left waiting on a forgotten lock.
func (l *Locks) leave(key string, k *keyLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k.users--
	if k.users == 0 {
		delete(l.keys, key)
	}
}

func waitError(key string, err error) error {
	return fmt.Errorf("gave up waiting for the lock of %q, which another call may hold: %w", key, err)
}
