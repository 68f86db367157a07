package pause

import (
	"encoding/binary"
	"fmt"
)

// assembler collects the bytes of a program at increasing addresses. Data come before the code that names them and
// loops jump back, so every address is known when it is needed.
type assembler struct {
	base  uint64 // address of the first byte
	bytes []byte
	lines []line
}

// line is one entry of the listing: bytes and their meaning.
type line struct {
	addr  uint64
	bytes []byte
	text  string
}

// here returns the address of the next byte.
func (a *assembler) here() uint64 { return a.base + uint64(len(a.bytes)) }

// emit appends the concatenated parts as one entry of the listing.
func (a *assembler) emit(text string, parts ...[]byte) {
	start := len(a.bytes)
	addr := a.here()
	for _, p := range parts {
		a.bytes = append(a.bytes, p...)
	}
	a.lines = append(a.lines, line{addr: addr, bytes: a.bytes[start:], text: text})
}

// quad appends a 64-bit value as data.
func (a *assembler) quad(value uint64, text string) {
	a.emit(fmt.Sprintf(".quad %#-18x // %s", value, text), le64(value))
}

func le16(v uint16) []byte { return binary.LittleEndian.AppendUint16(nil, v) }
func le32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
func le64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
