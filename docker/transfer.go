package docker

import (
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math"

	"github.com/moby/moby/api/types/jsonstream"
)

// followTransfer reads the progress of a pull or a load to its end and returns
// the error that the engine put into it, because the HTTP status was sent
// before the transfer began. progress, when not nil, gets the bytes fetched so
// far with every message.
func followTransfer(messages iter.Seq2[jsonstream.Message, error], progress func(int64)) error {
	fetched := transferred{}
	for message, err := range messages {
		if err != nil {
			return err
		}
		if message.Error != nil {
			return transferError(message.Error)
		}
		fetched.note(message)
		if progress != nil {
			progress(fetched.total)
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

// transferred adds up the bytes fetched over all layers.
type transferred struct {
	layers map[string]int64
	total  int64
}

// note takes a layer's position. An engine counts one layer again when it
// extracts it, and starts over when a download is tried again: neither counts.
func (t *transferred) note(message jsonstream.Message) {
	if message.Progress == nil || message.Status != "Downloading" {
		return
	}
	if t.layers == nil {
		t.layers = make(map[string]int64)
	}
	before, now := t.layers[message.ID], message.Progress.Current
	if now <= before {
		return
	}
	t.layers[message.ID] = now
	t.total += min(now-before, math.MaxInt64-t.total)
}
