package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/criadapter/criadapter/state"
)

// batchSize is the size in bytes above which a streamed list begins another message. A single item may be larger,
// because a pod's annotations hold up to 256 KiB. Such an item still stays far below maxMessageSize.
const batchSize = 1 << 20

// answerList answers a list from the cache. Without a filter, response is called once per snapshot.
func answerList[F, R proto.Message](
	ctx context.Context, s *Server, unfiltered *listCache, filter F, response func(*state.Snapshot) R,
) (R, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		var none R
		return none, err
	}
	if !isEmpty(filter) {
		return response(snapshot), nil
	}
	return unfiltered.answer(snapshot, func() proto.Message { return response(snapshot) }).(R), nil
}

// streamList sends the items of a list in batches (KEP-5825). message makes the message of one batch.
func streamList[T proto.Message, R any](
	s *Server, stream grpc.ServerStreamingServer[R], items func(*state.Snapshot) []T, message func([]T) *R,
) error {
	snapshot, err := s.snapshot(stream.Context())
	if err != nil {
		return err
	}
	return sendBatches(items(snapshot), func(batch []T) error { return stream.Send(message(batch)) })
}

// matchingItems returns item's result for each entry that matches the filter.
func matchingItems[E, F, I any](entries []*E, filter F, matches func(*E, F) bool, item func(*E) I) []I {
	items := make([]I, 0, len(entries))
	for _, entry := range entries {
		if matches(entry, filter) {
			items = append(items, item(entry))
		}
	}
	return items
}

// asIs is an item function for lists that return the entries unchanged.
func asIs[E any](entry *E) *E { return entry }

// sendBatches sends items in messages of bounded size. Without items it sends nothing, because CRI forbids empty
// messages in streamed lists.
func sendBatches[T proto.Message](items []T, send func([]T) error) error {
	begin, size := 0, 0
	for i, item := range items {
		itemSize := proto.Size(item)
		if i > begin && size+itemSize > batchSize {
			if err := send(items[begin:i]); err != nil {
				return err
			}
			begin, size = i, 0
		}
		size += itemSize
	}
	if begin == len(items) {
		return nil
	}
	return send(items[begin:])
}
