package container

import "sync"

// outputBuffer keeps the beginning of a stream and discards the rest, so that the writer never fails and never waits.
// It can be read while a writer that nobody waits for goes on.
type outputBuffer struct {
	limit int

	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer.
func (b *outputBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	room := b.limit - len(b.kept)
	b.kept = append(b.kept, p[:min(room, len(p))]...)
	return len(p), nil
}

// Bytes returns what was kept so far. What is written later does not change it.
func (b *outputBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept[:len(b.kept):len(b.kept)]
}
