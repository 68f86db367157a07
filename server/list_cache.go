package server

import (
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that newCodec wraps
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/criadapter/criadapter/state"
)

// listCache keeps the last answer to a list without a filter, and its encoding. The kubelet sends such a list every
// second, and usually nothing has changed. Encoding is the most expensive part of a list. A listCache is safe for
// concurrent use.
type listCache struct{ last atomic.Pointer[listAnswer] }

// listAnswer is the list of one snapshot. The response is shared and immutable.
type listAnswer struct {
	snapshot *state.Snapshot
	response proto.Message
	// encoded encodes the response once, when it is first sent.
	encoded func() ([]byte, error)
}

// answer returns the response for a snapshot. It calls list only if the snapshot differs from the last one.
func (c *listCache) answer(snapshot *state.Snapshot, list func() proto.Message) proto.Message {
	if last := c.last.Load(); last != nil && last.snapshot == snapshot {
		return last.response
	}
	response := list()
	c.last.Store(&listAnswer{
		snapshot: snapshot,
		response: response,
		encoded:  sync.OnceValues(func() ([]byte, error) { return proto.Marshal(response) }),
	})
	return response
}

// encoding returns the encoding of the last answer, and false for any other message.
func (c *listCache) encoding(message any) (encoded []byte, ok bool, err error) {
	last := c.last.Load()
	if last == nil || message != any(last.response) {
		return nil, false, nil
	}
	encoded, err = last.encoded()
	return encoded, true, err
}

// codec is gRPC's codec for protocol buffers with the encodings of cached lists.
type codec struct {
	encoding.CodecV2
	lists []*listCache
}

func newCodec(lists ...*listCache) codec {
	return codec{CodecV2: encoding.GetCodecV2("proto"), lists: lists}
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(message any) (mem.BufferSlice, error) {
	for _, list := range c.lists {
		if encoded, ok, err := list.encoding(message); ok || err != nil {
			return mem.BufferSlice{mem.SliceBuffer(encoded)}, err
		}
	}
	return c.CodecV2.Marshal(message)
}

// isEmpty reports whether a message, such as a filter, has no field set.
func isEmpty(message proto.Message) bool { return proto.Size(message) == 0 }
