package container

import (
	"encoding/binary"
	"io"
	"os"
	"sync"
)

// runOutput is what a command writes, joined into one stream. The sources are read until they end, or until the command
// and the reading have ended. So a command that goes on after Close neither waits nor gets SIGPIPE.
type runOutput struct {
	*io.PipeReader
	ending  <-chan struct{}
	sources []*os.File
	copying sync.WaitGroup
}

// newOutput begins to read the sources of a command, which then belong to the runOutput. ending is closed at the
// command's end. writer returns the writer for a source, which writes to the joined stream.
func newOutput(
	ending <-chan struct{}, sources []*os.File, writer func(source int, joined io.Writer) io.Writer,
) *runOutput {
	reader, joined := io.Pipe()
	o := &runOutput{PipeReader: reader, ending: ending, sources: sources}
	for i, source := range sources {
		o.copying.Go(func() {
			// It ends with the source. A terminal's end is an error.
			_, _ = io.Copy(writer(i, abandonable{joined}), source)
		})
	}
	go func() { // it ends with the sources
		o.copying.Wait()
		_ = joined.Close()
	}()
	return o
}

// Close ends the reading. The output of a command that goes on is discarded until it ends.
func (o *runOutput) Close() error {
	err := o.PipeReader.Close()
	select {
	case <-o.ending:
		o.stop()
	default:
		go func() { // it ends with the command
			<-o.ending
			o.stop()
		}()
	}
	return err
}

func (o *runOutput) stop() {
	closeAll(o.sources)
	o.copying.Wait()
}

// abandonable is a writer that discards all bytes once its reader is gone.
type abandonable struct{ to *io.PipeWriter }

// Write implements io.Writer.
func (a abandonable) Write(p []byte) (int, error) {
	_, _ = a.to.Write(p) // the only error is a closed reader
	return len(p), nil
}

// frameWriter puts the header of one stream before each piece.
type frameWriter struct {
	to     io.Writer
	stream byte
}

// Write implements io.Writer.
func (w frameWriter) Write(p []byte) (int, error) {
	if _, err := w.to.Write(frame(w.stream, p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func frame(stream byte, p []byte) []byte {
	const header = 8
	text := make([]byte, header, header+len(p))
	text[0] = stream
	binary.BigEndian.PutUint32(text[4:], uint32(len(p)))
	return append(text, p...)
}
