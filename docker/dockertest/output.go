package dockertest

import (
	"io"
	"sync"
)

// output buffers the output of a container or command. It is unbounded, so that a write never blocks.
type output struct {
	mu    sync.Mutex
	ready *sync.Cond
	data  []byte
	ended bool
}

func newOutput() *output {
	o := &output{}
	o.ready = sync.NewCond(&o.mu)
	return o
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
