package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// progressEvery is the period of the progress lines.
const progressEvery = 15 * time.Second

// progress reads Ginkgo's output, which has a sign for every ended spec, and prints how many specs have ended.
type progress struct {
	out   io.Writer
	began time.Time

	willRun     string // "189 of 7563", as Ginkgo prints it
	ended       int
	failed      int
	line        bytes.Buffer // the beginning of the current line
	nameIsNext  bool         // the last line said that a spec failed, the next one names it
	last        time.Time
	dotHasBegun int // how many bytes of a dot were read so far
}

// dot is the sign that Ginkgo prints for a spec that ran.
const dot = "•"

// newProgress writes its lines to out.
func newProgress(out io.Writer) *progress {
	now := time.Now()
	return &progress{out: out, began: now, last: now}
}

// Write takes a piece of Ginkgo's output. It never fails.
func (p *progress) Write(piece []byte) (int, error) {
	p.add(piece, time.Now())
	return len(piece), nil
}

func (p *progress) add(piece []byte, now time.Time) {
	for _, b := range piece {
		p.countDots(b)
		if b != '\n' {
			p.line.WriteByte(b)
			continue
		}
		p.read(p.line.String())
		p.line.Reset()
	}
	if now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	fmt.Fprintf(p.out, "%s: %d of the specs ended, %d failed; %s run\n", now.Sub(p.began).Round(time.Second), p.ended,
		p.failed, p.willRun)
}

// countDots counts the dots, each of which has several bytes.
func (p *progress) countDots(b byte) {
	switch {
	case b == dot[p.dotHasBegun]:
		p.dotHasBegun++
	case b == dot[0]:
		p.dotHasBegun = 1
	default:
		p.dotHasBegun = 0
	}
	if p.dotHasBegun == len(dot) {
		p.dotHasBegun = 0
		p.ended++
	}
}

// read evaluates a whole line.
func (p *progress) read(line string) {
	_, count, found := strings.Cut(line, "Will run ")
	switch {
	case found && p.willRun == "":
		p.willRun = strings.TrimSuffix(count, " specs")
	case strings.HasPrefix(line, dot+" [FAILED]"):
		p.failed++
		p.nameIsNext = true
	case p.nameIsNext:
		p.nameIsNext = false
		fmt.Fprintln(p.out, "failed: "+line)
	}
}
