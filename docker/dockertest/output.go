package dockertest

import (
	"context"
	"io"
	"sync"
)

// output buffers the output of a container or command. It is unbounded, so that a write never blocks.
type output struct {
	stdout, stderr, tty bool // the streams that the client asked for

	mu    sync.Mutex
	ready *sync.Cond
	data  []byte
	ended bool
}

func newOutput(stdout, stderr, tty bool) *output {
	o := &output{stdout: stdout, stderr: stderr, tty: tty}
	o.ready = sync.NewCond(&o.mu)
	return o
}

// print adds text if the client asked for the stream. Without a TTY it adds the engine's frame header first.
func (o *output) print(stream byte, text string) {
	wanted := o.stdout
	if stream == streamStderr {
		wanted = o.stderr
	}
	if text == "" || !wanted {
		return
	}
	if !o.tty {
		o.write(frameHeader(stream, len(text)))
	}
	o.write([]byte(text))
}

func (o *output) write(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.data = append(o.data, p...)
		o.ready.Broadcast()
	}
}

// end makes read return io.EOF after the written data.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.ready.Broadcast()
}

func (o *output) read(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.data) == 0 && !o.ended {
		o.ready.Wait()
	}
	if len(o.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, o.data)
	o.data = o.data[n:]
	return n, nil
}

// readIn is read, but returns ctx's error instead of io.EOF once ctx has ended.
func (o *output) readIn(ctx context.Context, p []byte) (int, error) {
	n, err := o.read(p)
	if err == io.EOF && ctx.Err() != nil {
		err = ctx.Err()
	}
	return n, err
}
