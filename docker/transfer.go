package docker

import (
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strings"

	"github.com/moby/moby/api/types/jsonstream"
)

// followTransfer reads the progress of a pull or a load to its end, and returns the error in it. The HTTP status cannot
// show this error, because it was sent before the transfer began. progress is PullOptions.Progress, and may be nil.
func followTransfer(messages iter.Seq2[jsonstream.Message, error], steps transferred, progress func(PullPhase)) error {
	for message, err := range messages {
		if err != nil {
			return err
		}
		if message.Error != nil {
			return transferError(message.Error)
		}
		if steps.update(message) && progress != nil {
			progress(steps.phase())
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

// transferred is the progress of a transfer.
type transferred struct {
	// layers has the last step of each layer, by the layer's short id. Messages about no layer have the id "" or the
	// tag.
	layers map[string]transferStep
	// waitsSilently says that the engine does not report which layers wait. With the containerd image store, the engine
	// reports the transfer before it has a slot, and before it has even fetched the manifest.
	waitsSilently bool
	// unpacksSilently says that the engine does not report that it extracts layers.
	unpacksSilently bool
}

// apiExtracting is the first API whose engines report the extraction of layers with the containerd image store.
const apiExtracting = "1.48"

func newTransferred(features Features) transferred {
	return transferred{
		layers:          make(map[string]transferStep),
		waitsSilently:   features.ContainerdImageStore,
		unpacksSilently: features.ContainerdImageStore && !features.Supports(apiExtracting),
	}
}

// transferStep is the engine's step for a layer, with its progress in bytes or in seconds.
type transferStep struct {
	status   string
	position int64
}

// update records a message, and reports whether it changes the step of its layer. Engines with the containerd image
// store repeat every layer's step each 100 ms, even if nothing arrives.
func (t transferred) update(message jsonstream.Message) bool {
	now := transferStep{status: message.Status}
	if message.Progress != nil {
		now.position = message.Progress.Current
	}
	before, known := t.layers[message.ID]
	t.layers[message.ID] = now
	return !known || now != before
}

// phase reports whether a transfer makes progress, waits for one of the engine's download slots, or is being extracted
// silently. A layer waits until its first bytes arrive. A complete layer is being extracted, or waits for a layer below
// it.
func (t transferred) phase() PullPhase {
	waiting, complete, untouched := t.waitsSilently, false, false
	for _, step := range t.layers {
		switch {
		case step.status == pulling && t.unpacksSilently:
			untouched = true
		case step.busy():
			return PullMoves
		case step.complete():
			complete = true
		}
		waiting = waiting || step.status == "Waiting"
	}
	switch {
	case t.unpacksSilently && complete != untouched:
		// An engine that already has all layers reports none of them as complete.
		return PullUnpacks
	case waiting && !untouched:
		return PullQueued
	default:
		return PullMoves
	}
}

// pulling is the status of a layer without any bytes yet.
const pulling = "Pulling fs layer"

// complete reports whether a layer is downloaded.
func (s transferStep) complete() bool {
	return s.status == "Download complete" || s.status == "Already exists"
}

// busy reports whether the engine works on the layer.
func (s transferStep) busy() bool {
	switch s.status {
	case pulling, "Downloading", "Verifying Checksum", "Extracting":
		return true
	}
	return strings.HasPrefix(s.status, "Retrying in ")
}
