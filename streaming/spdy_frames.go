package streaming

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/moby/spdystream/spdy"
)

const (
	// maxControlFrame bounds a frame that opens a stream, which has some tens of bytes. Compression shrinks headers a
	// thousandfold at most.
	maxControlFrame = 16 << 10
	// maxDataFrame is the size of the data frames that client-go sends.
	maxDataFrame = 32 << 10

	frameHeaderSize = 8
	streamIDSize    = 4
	controlBit      = 1 << 31
)

// headerSizes has the minimum payload of control frames with headers, in bytes. fixedSizes has the payload of all other
// control frames. spdystream reads that many bytes, even if the frame has another length.
var (
	headerSizes = map[spdy.ControlFrameType]int{spdy.TypeSynStream: 10, spdy.TypeSynReply: 4, spdy.TypeHeaders: 4}
	fixedSizes  = map[spdy.ControlFrameType]int{spdy.TypeRstStream: 8, spdy.TypePing: 4, spdy.TypeGoAway: 8,
		spdy.TypeWindowUpdate: 8}
)

// frameReader reads a client's SPDY frames before spdystream, which bounds headers only. It splits a data frame of up
// to 16 MiB into pieces: spdystream keeps 250 frames of a connection in memory while a process takes no input. It ends
// the connection if a control frame opens a stream out of order: spdystream answers each such frame in a new goroutine.
// It also ends the connection after a control frame of a wrong size: spdystream would take the bytes behind it for
// other frames.
type frameReader struct {
	from io.Reader
	// head is the unread part of a frame's header.
	head []byte
	// payload is the number of bytes after the header.
	payload int
	// rest is the number of bytes of a data frame after the current piece. stream and flags belong to that frame.
	rest   int
	stream uint32
	flags  byte
	// next is the lowest id for another stream.
	next uint32
}

// Read implements io.Reader.
func (f *frameReader) Read(p []byte) (int, error) {
	if len(f.head) == 0 && f.payload == 0 {
		if err := f.advance(); err != nil {
			return 0, err
		}
	}
	if len(f.head) > 0 {
		n := copy(p, f.head)
		f.head = f.head[n:]
		return n, nil
	}
	n, err := f.from.Read(p[:min(len(p), f.payload)])
	f.payload -= n
	return n, err
}

// advance goes to the next piece or frame.
func (f *frameReader) advance() error {
	if f.rest > 0 {
		f.piece()
		return nil
	}
	header := make([]byte, frameHeaderSize, frameHeaderSize+streamIDSize)
	if _, err := io.ReadFull(f.from, header); err != nil {
		return err
	}
	word, length := binary.BigEndian.Uint32(header), int(binary.BigEndian.Uint32(header[4:])&spdy.MaxDataLength)
	if word&controlBit == 0 {
		f.stream, f.flags, f.rest = word, header[4], length
		f.piece()
		return nil
	}
	kind := spdy.ControlFrameType(word & 0xffff)
	if err := checkControl(kind, length); err != nil {
		return err
	}
	f.head, f.payload = header, length
	if kind == spdy.TypeSynStream {
		return f.open()
	}
	return nil
}

// checkControl refuses a control frame of a wrong size, or of a type that no client of Kubernetes sends.
func checkControl(kind spdy.ControlFrameType, length int) error {
	least, most := headerSizes[kind], maxControlFrame
	if fixed, ok := fixedSizes[kind]; ok {
		least, most = fixed, fixed
	}
	if least == 0 || length < least || length > most {
		return fmt.Errorf("a control frame of the type %d has %d bytes", kind, length)
	}
	return nil
}

// piece begins the next piece of a data frame. Only the last piece has the frame's flags, which end the stream.
func (f *frameReader) piece() {
	f.payload = min(f.rest, maxDataFrame)
	f.rest -= f.payload
	size := uint32(f.payload)
	if f.rest == 0 {
		size |= uint32(f.flags) << 24
	}
	f.head = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, f.stream), size)
}

// open checks the id of a stream that the client opens.
func (f *frameReader) open() error {
	id := f.head[frameHeaderSize : frameHeaderSize+streamIDSize]
	if _, err := io.ReadFull(f.from, id); err != nil {
		return err
	}
	stream := binary.BigEndian.Uint32(id)
	if stream < f.next || stream >= controlBit {
		return errors.New("a stream is opened out of order")
	}
	f.next = stream + 2
	f.head, f.payload = f.head[:frameHeaderSize+streamIDSize], f.payload-streamIDSize
	return nil
}
