package container

import "sync"

const (
	// outputBudget bounds the output that all commands together keep beyond freeOutput, in bytes.
	outputBudget = 64 << 20
	// freeOutput is the number of bytes that each stream of a command may always keep, so that noisy commands do not
	// silence quiet commands. The kubelet reads 10 KiB of a probe.
	freeOutput = 16 << 10
)

// budget is a number of bytes that many buffers share. Its methods are safe for concurrent use.
type budget struct {
	mu   sync.Mutex
	left int
}

// take takes n bytes, or as many as are left.
func (b *budget) take(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, b.left)
	b.left -= n
	return n
}

func (b *budget) give(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

// outputBuffer keeps the beginning of a stream and discards the rest, so that the writer never fails and never waits.
// Until release, its bytes beyond freeOutput count against a budget. It can be read while its writer goes on.
type outputBuffer struct {
	budget *budget

	mu sync.Mutex
	// limit is how many bytes the buffer may keep. It falls when the budget is used up, so that no byte is kept behind
	// a gap.
	limit int
	// taken is how many bytes of the budget the buffer has.
	taken int
	kept  []byte
}

// Write implements io.Writer.
func (b *outputBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	want := len(b.kept) + min(b.limit-len(b.kept), len(p))
	if want > cap(b.kept) {
		b.grow(want)
	}
	room := min(b.limit, cap(b.kept)) - len(b.kept)
	b.kept = append(b.kept, p[:min(room, len(p))]...)
	return len(p), nil
}

// grow makes room for up to twice want bytes, as far as limit and the budget allow.
func (b *outputBuffer) grow(want int) {
	size := min(2*want, b.limit)
	if need := size - freeOutput - b.taken; need > 0 {
		got := b.budget.take(need)
		b.taken += got
		size -= need - got
	}
	if size < want {
		b.limit = size // the rest of the stream is discarded
	}
	kept := make([]byte, len(b.kept), size)
	copy(kept, b.kept)
	b.kept = kept
}

// Bytes returns the output so far. Later writes do not change it.
func (b *outputBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept[:len(b.kept):len(b.kept)]
}

// release returns the buffer's share to the budget. The buffer keeps nothing more.
func (b *outputBuffer) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.budget.give(b.taken)
	b.taken, b.limit, b.kept = 0, 0, nil
}
