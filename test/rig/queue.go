package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// newQueue returns a pipe that holds the numbers from 0 to n-1. The rigs of one engine read from it, so that each
// number goes to the first free rig.
func newQueue(n int) (*os.File, error) {
	numbers, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	var all []byte
	for i := range n {
		all = binary.BigEndian.AppendUint16(all, uint16(i))
	}
	if len(all) > pipeSize {
		numbers.Close()
		return nil, fmt.Errorf("%d test binaries are more than a pipe holds", n)
	}
	if _, err := write.Write(all); err != nil {
		numbers.Close()
		return nil, err
	}
	return numbers, nil
}

// pipeSize is the capacity of a new pipe in bytes, see pipe(7).
const pipeSize = 64 << 10

// nextOf returns a function that takes the next number from a queue. At the end of the queue it returns false. The
// kernel gives a reader both bytes of a number, because a pipe has one reader at a time and never holds half a number.
func nextOf(queue io.Reader) func() (int, bool) {
	return func() (int, bool) {
		var number [2]byte
		if _, err := io.ReadFull(queue, number[:]); err != nil {
			return 0, false
		}
		return int(binary.BigEndian.Uint16(number[:])), true
	}
}
