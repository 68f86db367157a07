package play

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"
)

// terminal writes whole lines with a name before each. With colours, each name has its own colour. Below these lines, a
// window shows a few lines that change. It is safe for concurrent use.
type terminal struct {
	colours bool
	// width returns the columns of the window, or is nil without a window.
	width func() int

	mu    sync.Mutex
	out   io.Writer
	names map[string]int
	// shown are the lines that change.
	shown []string
}

// palette has the colours of names, as SGR codes. Red is left out, because it means an error.
var palette = []int{36, 33, 32, 35, 34, 96, 93, 92, 95, 94}

func newTerminal(out io.Writer, colours bool, width func() int) *terminal {
	return &terminal{colours: colours, width: width, out: out, names: map[string]int{}}
}

// show replaces the lines that change. Without a window it does nothing.
func (t *terminal) show(lines []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.width == nil || slices.Equal(lines, t.shown) {
		return
	}
	t.hide()
	t.shown = lines
	t.draw()
}

// hide removes the shown lines from the window: the cursor goes up, and the rest of the window is erased (ECMA-48).
func (t *terminal) hide() {
	if len(t.shown) > 0 {
		fmt.Fprintf(t.out, "\x1b[%dA\x1b[J", len(t.shown))
	}
}

// draw writes the shown lines. A line is cut at the window's width, because hide counts lines.
func (t *terminal) draw() {
	for _, line := range t.shown {
		text := []rune(line)
		fmt.Fprintln(t.out, string(text[:max(0, min(len(text), t.width()-1))]))
	}
}

// line writes one line.
func (t *terminal) line(name, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hide()
	defer t.draw()
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
