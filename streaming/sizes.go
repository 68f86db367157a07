package streaming

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// maxSize bounds the text of one terminal size in bytes. Clients send some 30 bytes.
const maxSize = 4 << 10

// followSizes reads the sizes of a terminal until the client sends no more. It discards text after an invalid size, and
// all text if the process has no terminal. Unread messages would block the input behind them.
func (c connector) followSizes(ctx context.Context, from io.Reader) <-chan Size {
	sizes := make(chan Size)
	c.session.work.Go(func() {
		if c.process.options.TTY {
			decodeSizes(ctx, from, sizes)
		} else {
			close(sizes)
		}
		_, _ = io.Copy(io.Discard, from)
	})
	return sizes
}

// decodeSizes reads terminal sizes until an invalid size, the end of the input or the end of ctx. At the end of ctx,
// the connection is closed, which ends the read.
func decodeSizes(ctx context.Context, from io.Reader, to chan<- Size) {
	defer close(to)
	bounded := &boundedReader{from: from}
	decoder := json.NewDecoder(bounded)
	for {
		bounded.left = maxSize
		var size remotecommand.TerminalSize
		if err := decoder.Decode(&size); err != nil {
			return
		}
		select {
		case to <- Size(size):
		case <-ctx.Done():
			return
		}
	}
}

// boundedReader fails after left bytes, because the decoder keeps a whole value in memory.
type boundedReader struct {
	from io.Reader
	left int
}

// Read implements io.Reader.
func (r *boundedReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, errors.New("a terminal size does not end")
	}
	n, err := r.from.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}
