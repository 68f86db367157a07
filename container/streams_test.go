package container

import (
	"context"
	"io"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A client with a terminal attaches to a container without one. Attach reads the client's sizes, because the input
// waits behind them.
func TestAttachDiscardsSizesWithoutATerminal(t *testing.T) {
	n, _, id, _ := newTurningNode(t)
	sizes := make(chan Size)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	attached := testutil.Go(func() error {
		return n.Attach(ctx, id, Streams{Stdout: io.Discard, TTY: true, Resize: sizes})
	})
	sent := testutil.Go(func() error {
		for width := range uint16(3) {
			sizes <- Size{Width: 80 + width, Height: 24}
		}
		return nil
	})
	testutil.Check(t, testutil.Receive(t, sent, "a size is not read"))
	cancel() // the client is gone
	testutil.FailsWith(t, <-attached, context.Canceled, "Attach")
}

// TestInputOfAProcessThatReadsNone: a process may close its input and go on. The client's further input is read,
// because the sizes of its terminal wait behind it.
func TestInputOfAProcessThatReadsNone(t *testing.T) {
	closed, stdin := io.Pipe()
	testutil.Must(t, closed.Close())
	input, typed := io.Pipe()
	copied := testutil.Go(func() error {
		Streams{Stdin: input}.copyInput(t.Context(), stdin, func() error { return nil })
		return nil
	})
	sent := testutil.Go(func() error {
		for range 3 {
			if _, err := typed.Write([]byte("text")); err != nil {
				return err
			}
		}
		return typed.Close()
	})
	testutil.Check(t, testutil.Receive(t, sent, "the client's input is not read"))
	testutil.Check(t, testutil.Receive(t, copied, "the copying does not end with the input"))
}
