package streaming

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/moby/spdystream/spdy"

	"github.com/criadapter/criadapter/internal/testutil"
)

// sent writes frames like a client. It returns a framer that reads them through a frameReader.
func sent(t *testing.T, frames ...spdy.Frame) *spdy.Framer {
	t.Helper()
	var wire bytes.Buffer
	to, err := spdy.NewFramer(&wire, nil)
	testutil.Must(t, err)
	for _, frame := range frames {
		testutil.Must(t, to.WriteFrame(frame))
	}
	from, err := spdy.NewFramer(nil, &frameReader{from: &wire, next: 1})
	testutil.Must(t, err)
	return from
}

func TestLargeDataFrameComesInPieces(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 10_000)
	from := sent(t,
		&spdy.SynStreamFrame{StreamId: 1, Headers: http.Header{"Streamtype": {"stdin"}}},
		&spdy.DataFrame{StreamId: 1, Data: []byte("small")},
		&spdy.DataFrame{StreamId: 1, Data: content, Flags: spdy.DataFlagFin},
		&spdy.DataFrame{StreamId: 3, Flags: spdy.DataFlagFin},
		&spdy.PingFrame{Id: 1},
	)
	if frame, err := from.ReadFrame(); err != nil || frame.(*spdy.SynStreamFrame).Headers.Get("Streamtype") != "stdin" {
		t.Fatalf("%+v, %v", frame, err)
	}
	frame, err := from.ReadFrame()
	testutil.Require(t, err == nil && string(frame.(*spdy.DataFrame).Data) == "small", "%+v, %v", frame, err)
	var got []byte
	for ended := false; !ended; {
		frame, err := from.ReadFrame()
		testutil.Must(t, err)
		piece := frame.(*spdy.DataFrame)
		testutil.Require(t, len(piece.Data) <= maxDataFrame && piece.StreamId == 1,
			"a piece of %d bytes of stream %d", len(piece.Data), piece.StreamId)
		got = append(got, piece.Data...)
		ended = piece.Flags&spdy.DataFlagFin != 0
	}
	testutil.Assert(t, bytes.Equal(got, content), "got %d of %d bytes, or wrong bytes", len(got), len(content))
	frame, err = from.ReadFrame()
	testutil.Assert(t, err == nil && frame.(*spdy.DataFrame).StreamId == 3 &&
		frame.(*spdy.DataFrame).Flags == spdy.DataFlagFin, "an empty frame: %+v, %v", frame, err)
	frame, err = from.ReadFrame()
	testutil.Assert(t, err == nil && frame.(*spdy.PingFrame).Id == 1, "a ping: %+v, %v", frame, err)
	_, err = from.ReadFrame()
	testutil.Assert(t, err == io.EOF, "the end: %v", err)
}

func TestStreamsOutOfOrderEndTheConnection(t *testing.T) {
	for name, second := range map[string]spdy.StreamId{"again": 3, "a lower one": 1, "the highest bit": 1<<31 + 5} {
		from := sent(t, &spdy.SynStreamFrame{StreamId: 3, Headers: http.Header{}},
			&spdy.SynStreamFrame{StreamId: second, Headers: http.Header{}})
		_, err := from.ReadFrame()
		testutil.Must(t, err)
		frame, err := from.ReadFrame()
		testutil.Assert(t, err != nil, "%s: %+v", name, frame)
	}
}

// spdystream reads a fixed number of bytes of some control frames. If the frame's header gives another size, spdystream
// would take the client's data for the next header, and accept a data frame of any size.
func TestControlFramesOfTheWrongSizeEndTheConnection(t *testing.T) {
	hidden := []byte{0, 0, 0, 1, 0, 0xff, 0xff, 0xff} // a data frame of 16 MiB
	for name, sent := range map[string][]byte{
		"long ping":          append([]byte{0x80, 3, 0, 6, 0, 0, 0, 12, 0, 0, 0, 1}, hidden...),
		"empty reset":        {0x80, 3, 0, 3, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff},
		"long reset":         append([]byte{0x80, 3, 0, 3, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 5}, hidden...),
		"short stream":       append([]byte{0x80, 3, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1}, hidden...),
		"settings with more": append([]byte{0x80, 3, 0, 4, 0, 0, 0, 12, 0, 0, 0, 0}, hidden...),
	} {
		wire := bytes.NewReader(append(sent, make([]byte, 32<<20)...))
		from, err := spdy.NewFramer(nil, &frameReader{from: wire, next: 1})
		testutil.Must(t, err)
		for {
			frame, err := from.ReadFrame()
			if err != nil {
				break
			}
			if data, ok := frame.(*spdy.DataFrame); ok {
				t.Errorf("%s: a data frame of %d bytes", name, len(data.Data))
				break
			}
		}
	}
}
