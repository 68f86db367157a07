package streaming

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/moby/spdystream/spdy"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/criadapter/criadapter/internal/testutil"
)

// heap returns how many bytes the heap holds.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// waits is a runtime for one command, which takes no input and ends with its client. begun is closed when the command
// begins, and ended when it ends.
func waits() (_ fakeRuntime, begun, ended chan struct{}) {
	begun, ended = make(chan struct{}), make(chan struct{})
	return fakeRuntime{exec: func(ctx context.Context, _ []string, _ Streams) (int, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return 0, ctx.Err()
	}}, begun, ended
}

func TestUnrequestedStreamsLeakNothing(t *testing.T) {
	command, begun, _ := waits()
	s := serve(t, Options{Runtime: command})
	check := testutil.NoMoreGoroutines(t)
	c := openRawSPDY(t, execURL(t, s, request(remotecommand.Options{Stdout: true})), remotecommand.StreamProtocolV4Name)
	c.open(1, remotecommand.StreamType, remotecommand.StreamTypeError)
	c.open(3, remotecommand.StreamType, remotecommand.StreamTypeStdout)
	await(t, "the session begins", begun)
	for id := spdy.StreamId(5); id < 25; id += 2 {
		c.open(id, remotecommand.StreamType, remotecommand.StreamTypeStdout)
	}
	time.Sleep(200 * time.Millisecond)
	_ = c.conn.Close()
	check()
}

// The first stream gets data that the server does not expect.
func TestUnexpectedDataLeaksNothing(t *testing.T) {
	port := listen(t, "tcp4", "127.0.0.1:0", afterTheEnd)
	for name, streams := range map[string][]string{
		"on an error stream": {portforward.StreamTypeError, portforward.StreamTypeData},
		"on a lone stream":   {portforward.StreamTypeData},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, Options{Runtime: fakeRuntime{network: onHost}})
			check := testutil.NoMoreGoroutines(t)
			c := openRawSPDY(t, forwardURL(t, s), portforward.ProtocolV1Name)
			for i, kind := range streams {
				c.open(spdy.StreamId(2*i+1), portforward.PortHeader, fmt.Sprint(port),
					portforward.PortForwardRequestIDHeader, "0", portforward.StreamType, kind)
			}
			for range streams {
				c.awaitReply()
			}
			_ = c.send(1, []byte("unexpected"))
			time.Sleep(100 * time.Millisecond)
			_ = c.conn.Close()
			check()
		})
	}
}

func TestStreamsOfASessionAreBounded(t *testing.T) {
	s := serve(t, Options{Runtime: fakeRuntime{network: onHost}})
	check := testutil.NoMoreGoroutines(t)
	c := openRawSPDY(t, forwardURL(t, s), portforward.ProtocolV1Name)
	for i := range maxForwardStreams + 1 {
		c.open(spdy.StreamId(2*i+1), portforward.PortHeader, "80", portforward.PortForwardRequestIDHeader,
			fmt.Sprint(i),
			portforward.StreamType, portforward.StreamTypeData)
	}
	opened, refused := 0, 0
	for opened+refused < maxForwardStreams+1 {
		frame, err := c.ReadFrame()
		testutil.Must(t, err)
		if _, ok := frame.(*spdy.RstStreamFrame); ok {
			refused++
		} else {
			opened++
		}
	}
	testutil.Assert(t, refused == 1, "%d streams were opened and %d refused", opened, refused)
	_ = c.conn.Close()
	check()
}

func TestSessionWithoutAnErrorStream(t *testing.T) {
	begun := make(chan struct{}, 1)
	s := serve(t, Options{Runtime: fakeRuntime{exec: func(context.Context, []string, Streams) (int, error) {
		begun <- struct{}{}
		return 0, nil
	}}})
	c := openRawSPDY(t, execURL(t, s, request(remotecommand.Options{Stdout: true})), remotecommand.StreamProtocolV4Name)
	c.open(1, remotecommand.StreamType, remotecommand.StreamTypeStdout)
	c.open(3, remotecommand.StreamType, remotecommand.StreamTypeStdout)
	select {
	case <-begun:
		t.Error("the command runs although its result cannot be sent")
	case <-time.After(500 * time.Millisecond):
	}
}

func TestUnreadInputTakesLittleMemory(t *testing.T) {
	command, begun, _ := waits()
	s := serve(t, Options{Runtime: command})
	c := openRawSPDY(t, execURL(t, s, request(remotecommand.Options{Stdin: true, Stdout: true})),
		remotecommand.StreamProtocolV4Name)
	c.open(1, remotecommand.StreamType, remotecommand.StreamTypeError)
	c.open(3, remotecommand.StreamType, remotecommand.StreamTypeStdin)
	c.open(5, remotecommand.StreamType, remotecommand.StreamTypeStdout)
	await(t, "the session begins", begun)
	piece, before := make([]byte, 8<<20), heap()
	_ = c.conn.SetWriteDeadline(time.Now().Add(3 * time.Second))
	for range 50 {
		if c.send(3, piece) != nil {
			break
		}
	}
	grown := int64(heap()) - int64(before)
	testutil.Assert(t, grown <= 32<<20, "one session holds %d MiB", grown>>20)
}

func TestHugeHeadersOfAStreamTakeLittleMemory(t *testing.T) {
	s := serve(t, Options{Runtime: fakeRuntime{network: onHost}})
	var packed bytes.Buffer
	c := openRawSPDY(t, forwardURL(t, s), portforward.ProtocolV1Name)
	framer, err := spdy.NewFramer(&packed, &packed)
	testutil.Must(t, err)
	frame := &spdy.SynStreamFrame{StreamId: 1, Headers: http.Header{}}
	for i := range 100 {
		frame.Headers.Set(fmt.Sprint("h", i), strings.Repeat("a", 1<<20))
	}
	testutil.Must(t, framer.WriteFrame(frame))
	frame = nil
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	before := stats.TotalAlloc
	size := packed.Len()
	_, _ = c.conn.Write(packed.Bytes())
	time.Sleep(time.Second)
	runtime.ReadMemStats(&stats)
	grown := stats.TotalAlloc - before
	testutil.Assert(t, grown <= 32<<20, "a frame of %d KiB takes %d MiB", size>>10, grown>>20)
}

func TestEndlessSizeTakesLittleMemory(t *testing.T) {
	overEach(t, func(t *testing.T, open open) {
		command, begun, _ := waits()
		s := serve(t, Options{Runtime: command})
		asked := remotecommand.Options{Stdin: true, Stdout: true, TTY: true}
		c := open(t, execURL(t, s, request(asked)), asked)
		await(t, "the session begins", begun)
		before := heap()
		piece := bytes.Repeat([]byte("1"), 1<<20)
		for range 64 {
			if _, err := c.resize.Write(piece); err != nil {
				break
			}
		}
		grown := int64(heap()) - int64(before)
		testutil.Assert(t, grown <= 32<<20, "one size takes %d MiB", grown>>20)
	})
}
