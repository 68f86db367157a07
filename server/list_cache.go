package server

import (
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that this one stands in front of
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/criadapter/criadapter/state"
)

// listCache keeps the last answer to a list without a filter, and its encoding:
// the kubelet asks for it every second, and between two questions mostly nothing
// happens. Encoding costs more than all else that a list does. It is safe for
// concurrent use.
type listCache struct{ last atomic.Pointer[listAnswer] }

// listAnswer is the list of one snapshot. The response is shared and must not be changed.
type listAnswer struct {
	snapshot *state.Snapshot
	response proto.Message
	// encoded is made when somebody is first sent the response.
	encoded func() ([]byte, error)
}

// answer returns the response for a snapshot, which list makes when it is not the last one.
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

// encoding returns the encoding of a response that is the last answer, false for another message.
func (c *listCache) encoding(message any) (encoded []byte, ok bool, err error) {
	last := c.last.Load()
	if last == nil || message != any(last.response) {
		return nil, false, nil
	}
	encoded, err = last.encoded()
	return encoded, true, err
}

// codec is gRPC's own for protocol buffers, but knows the encoding of cached lists.
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

// isEmpty reports whether a message, a filter for example, says nothing.
func isEmpty(message proto.Message) bool { return proto.Size(message) == 0 }
