package stats

import (
	"bytes"
	"iter"
	"math"
	"strconv"
)

// unlimited stands for no limit.
const unlimited = math.MaxUint64

// The parsers of this file accept any content. They ignore a line that they do not understand, because kernels add
// lines and fields.

// parseUint reads a decimal number.
func parseUint(text []byte) (uint64, bool) {
	if len(text) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		digit := uint64(c - '0')
		if n > (math.MaxUint64-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}

// parseValue reads a file that holds one number, or "max" for no limit.
func parseValue(content []byte) (uint64, bool) {
	content = bytes.TrimSpace(content)
	if string(content) == "max" {
		return unlimited, true
	}
	return parseUint(content)
}

// lines yields the lines of content without their ends.
func lines(content []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(content) > 0 {
			line, rest, _ := bytes.Cut(content, []byte{'\n'})
			content = rest
			if !yield(line) {
				return
			}
		}
	}
}

// pairs yields the lines "key number" of a flat keyed file.
func pairs(content []byte) iter.Seq2[[]byte, uint64] {
	return func(yield func([]byte, uint64) bool) {
		for line := range lines(content) {
			key, text, ok := bytes.Cut(line, []byte{' '})
			if !ok {
				continue
			}
			if n, ok := parseUint(text); ok && !yield(key, n) {
				return
			}
		}
	}
}

// pressure has the waiting times of a pressure file.
type pressure struct {
	some, full stall
	// hasFull is false for the CPU on kernels before 5.13.
	hasFull bool
}

// stall is one line of a pressure file.
type stall struct {
	// total is in nanoseconds.
	total uint64
	// The averages over 10, 60 and 300 seconds are in per cent.
	avg10, avg60, avg300 float64
}

// parsePressure reads a pressure file (Documentation/accounting/psi.rst). It returns nil without a "some" line.
func parsePressure(content []byte) *pressure {
	var p pressure
	found := false
	for line := range lines(content) {
		kind, rest, _ := bytes.Cut(line, []byte{' '})
		switch string(kind) {
		case "some":
			p.some, found = parseStall(rest), true
		case "full":
			p.full, p.hasFull = parseStall(rest), true
		}
	}
	if !found {
		return nil
	}
	return &p
}

func parseStall(fields []byte) stall {
	var s stall
	for field := range bytes.FieldsSeq(fields) {
		key, text, _ := bytes.Cut(field, []byte{'='})
		switch string(key) {
		case "avg10":
			s.avg10 = parsePercent(text)
		case "avg60":
			s.avg60 = parsePercent(text)
		case "avg300":
			s.avg300 = parsePercent(text)
		case "total":
			if microseconds, ok := parseUint(text); ok && microseconds <= math.MaxUint64/1000 {
				s.total = microseconds * 1000
			}
		}
	}
	return s
}

// parsePercent reads a percentage. It returns 0 for any other text and for infinity.
func parsePercent(text []byte) float64 {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
		return 0
	}
	return f
}

// device is the number of a block device, "253:0".
type device struct {
	major, minor uint32
}

// parseDevice reads "253:0".
func parseDevice(text []byte) (device, bool) {
	majorText, minorText, ok := bytes.Cut(text, []byte{':'})
	if !ok {
		return device{}, false
	}
	major, okMajor := parseUint(majorText)
	minor, okMinor := parseUint(minorText)
	if !okMajor || !okMinor || major > math.MaxUint32 || minor > math.MaxUint32 {
		return device{}, false
	}
	return device{uint32(major), uint32(minor)}, true
}

// parseIOStat reads io.stat of cgroup v2. Linux 5.15 does not end the line of an unused device, so the next device
// follows on the same line.
func parseIOStat(content []byte) []deviceIO {
	var all []deviceIO
	for line := range lines(content) {
		var io deviceIO
		known, used := false, false
		for field := range bytes.FieldsSeq(line) {
			key, text, isPair := bytes.Cut(field, []byte{'='})
			if !isPair {
				io.device, known = parseDevice(field)
				continue
			}
			if !known {
				continue
			}
			used = true
			if n, ok := parseUint(text); ok {
				io.parseField(key, n)
			}
		}
		if used {
			all = append(all, io)
		}
	}
	return all
}

// parseField reads a field of io.stat.
func (d *deviceIO) parseField(key []byte, n uint64) {
	switch string(key) {
	case "rbytes":
		d.read.bytes = &n
	case "wbytes":
		d.write.bytes = &n
	case "rios":
		d.read.operations = &n
	case "wios":
		d.write.operations = &n
	default:
		d.parseCost(key, n)
	}
}

// parseCost reads a field of io.stat for a device with io.cost.
func (d *deviceIO) parseCost(key []byte, microseconds uint64) {
	name, ok := bytes.CutPrefix(key, []byte("cost."))
	if !ok || microseconds > math.MaxUint64/1000 {
		return
	}
	cost := ioCostStats{}
	if d.cost != nil {
		cost = *d.cost
	}
	switch string(name) {
	case "usage":
		cost.usage = microseconds * 1000
	case "wait":
		cost.wait = microseconds * 1000
	case "indebt":
		cost.inDebt = microseconds * 1000
	case "indelay":
		cost.inDelay = microseconds * 1000
	default:
		return
	}
	d.cost = &cost
}

// parseBlkio yields the lines "253:0 Read 4096" of a blkio file of cgroup v1, for reads and writes.
func parseBlkio(content []byte) iter.Seq2[blkioKey, uint64] {
	return func(yield func(blkioKey, uint64) bool) {
		for line := range lines(content) {
			name, rest, _ := bytes.Cut(line, []byte{' '})
			operation, text, _ := bytes.Cut(rest, []byte{' '})
			number, okDevice := parseDevice(name)
			n, okNumber := parseUint(text)
			write := string(operation) == "Write"
			if !okDevice || !okNumber || !write && string(operation) != "Read" {
				continue
			}
			if !yield(blkioKey{number, write}, n) {
				return
			}
		}
	}
}

// blkioKey is the key of a line of a blkio file.
type blkioKey struct {
	device device
	write  bool
}
