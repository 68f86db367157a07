package play

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// terminal writes whole lines with a name before each. With colours, each name has its own. It is safe for concurrent
// use.
type terminal struct {
	colours bool

	mu    sync.Mutex
	out   io.Writer
	names map[string]int
}

// palette has the colours of names, as SGR codes. Red is left out, because it means an error.
var palette = []int{36, 33, 32, 35, 34, 96, 93, 92, 95, 94}

func newTerminal(out io.Writer, colours bool) *terminal {
	return &terminal{colours: colours, out: out, names: map[string]int{}}
}

// line writes one line.
func (t *terminal) line(name, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.colours {
		fmt.Fprintf(t.out, "%s | %s\n", name, text)
		return
	}
	if _, known := t.names[name]; !known {
		t.names[name] = palette[len(t.names)%len(palette)]
	}
	fmt.Fprintf(t.out, "\x1b[%dm%s |\x1b[0m %s\n", t.names[name], name, text)
}

// lines returns a writer whose lines get the name.
func (t *terminal) lines(name string) *lineWriter { return &lineWriter{terminal: t, name: name} }

// lineWriter divides its input into lines. It keeps an unfinished line until end.
type lineWriter struct {
	terminal *terminal
	name     string
	rest     []byte
}

func (w *lineWriter) Write(text []byte) (int, error) {
	w.rest = append(w.rest, text...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte{'\n'})
		if !found {
			return len(text), nil
		}
		w.terminal.line(w.name, string(line))
		w.rest = bytes.Clone(rest)
	}
}

// end writes the unfinished line.
func (w *lineWriter) end() {
	if len(w.rest) > 0 {
		w.terminal.line(w.name, string(w.rest))
		w.rest = nil
	}
}
