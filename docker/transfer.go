package docker

import (
	"encoding/json"
	"errors"
	"io"
	"iter"

	"github.com/moby/moby/api/types/jsonstream"
)

// followTransfer reads the progress of a pull or a load to its end and returns
// the error that the engine put into it, because the HTTP status was sent
// before the transfer began. progress, when not nil, is called on every message
// that tells something new.
func followTransfer(messages iter.Seq2[jsonstream.Message, error], progress func()) error {
	seen := make(transferred)
	for message, err := range messages {
		if err != nil {
			return err
		}
		if message.Error != nil {
			return transferError(message.Error)
		}
		if seen.note(message) && progress != nil {
			progress()
		}
	}
	return nil
}

// decodeMessages reads progress messages one after the other until r ends.
func decodeMessages(r io.Reader) iter.Seq2[jsonstream.Message, error] {
	return func(yield func(jsonstream.Message, error) bool) {
		decoder := json.NewDecoder(r)
		for {
			var message jsonstream.Message
			err := decoder.Decode(&message)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(message, err) || err != nil {
				return
			}
		}
	}
}

// transferred is the last step of each layer, by the layer's short id; what
// concerns no layer has the id "".
type transferred map[string]transferStep

// transferStep is what an engine does with a layer, and how far it has come:
// bytes, or the seconds that it has taken so far.
type transferStep struct {
	status   string
	position int64
}

// note reports whether a message tells another step than the last one of its
// layer. Engines with the containerd image store repeat every layer's step each
// 100 ms, also when nothing arrives.
func (t transferred) note(message jsonstream.Message) bool {
	now := transferStep{status: message.Status}
	if message.Progress != nil {
		now.position = message.Progress.Current
	}
	before, known := t[message.ID]
	t[message.ID] = now
	return !known || now != before
}
