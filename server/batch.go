package server

import "google.golang.org/protobuf/proto"

// batchSize is the size in bytes above which a streamed list begins another message. One item alone may be larger (a
// pod's annotations hold up to 256 KiB) and still stays far below the largest message.
const batchSize = 1 << 20

// sendBatches sends items in messages of bounded size, none of them empty, as the
// CRI text of the streamed lists demands; nothing for no items.
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
