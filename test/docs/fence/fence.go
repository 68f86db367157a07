// Package fence reads the fenced blocks of a Markdown document. What a block is stands after its fence:
//
//	sh          commands that are parsed, with their flags: they need a cluster, a registry or a release on the network
//	sh machine  commands that `make package-test` runs, in the order of the document, on a machine with the packages
//	output      what a command prints
//	yaml, json  such a file
//	text        anything else
package fence

import (
	"fmt"
	"strings"
)

// Kind says what a block is.
type Kind string

// The kinds, as they stand after a fence.
const (
	Shell   Kind = "sh"
	Machine Kind = "sh machine"
	Output  Kind = "output"
	YAML    Kind = "yaml"
	JSON    Kind = "json"
	Text    Kind = "text"
)

// Block is one fenced block.
type Block struct {
	Kind Kind
	// Line is the number of its fence in the document, from 1.
	Line int
	Text string
}

// Read returns the blocks of a document. A block of an unknown kind, one without an end and one that is indented in the place
// of fenced are errors, because nobody could tell what to do with them; what could be read is returned beside the error.
func Read(document string) ([]Block, error) {
	var blocks []Block
	var open *Block
	before := ""
	for i, line := range strings.Split(document, "\n") {
		kind, fenced := strings.CutPrefix(line, "```")
		switch {
		case fenced && open != nil:
			blocks, open = append(blocks, *open), nil
		case fenced:
			open = &Block{Kind: Kind(kind), Line: i + 1}
			switch open.Kind {
			case Shell, Machine, Output, YAML, JSON, Text:
			default:
				return blocks, fmt.Errorf("line %d: a block of the kind %q, which is none", i+1, kind)
			}
		case open != nil:
			open.Text += line + "\n"
		case strings.HasPrefix(line, "    ") && strings.TrimSpace(before) == "":
			return blocks, fmt.Errorf("line %d: an indented block, which has no kind: fence it", i+1)
		}
		before = line
	}
	if open != nil {
		return blocks, fmt.Errorf("line %d: the block has no end", open.Line)
	}
	return blocks, nil
}
