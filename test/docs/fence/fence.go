// Package fence reads the fenced blocks of Markdown documents. The kind of a block is after its fence. For commands,
// the kind names the suite that runs them:
//
//	sh machine            `make package-test` runs it on a Debian machine with systemd, Docker Engine and the packages
//	sh tree               TestSystemDocuments of test/e2e runs it in this tree, on the installed engine
//	sh ci                 .ci/run has these lines, maybe with more variables
//	sh elsewhere: REASON  no suite can run it; TestElsewhere of test/docs has the list
//	output                the output of a command
//	yaml, json            a file of this format
//	yaml file: PATH       the same, written to PATH before the commands of its document run; json likewise
//	text                  anything else
//
// The blocks of one document and suite are one script, see Script.
package fence

import (
	"fmt"
	"strings"
)

// Kind says what a block contains, and for commands which suite runs them.
type Kind string

// The kinds, as they stand after a fence.
const (
	Machine   Kind = "sh machine"
	Tree      Kind = "sh tree"
	CI        Kind = "sh ci"
	Elsewhere Kind = "sh elsewhere"
	Output    Kind = "output"
	YAML      Kind = "yaml"
	YAMLFile  Kind = "yaml file"
	JSON      Kind = "json"
	JSONFile  Kind = "json file"
	Text      Kind = "text"
)

// Block is one fenced block.
type Block struct {
	Kind Kind
	// Note is the text after the kind: a reason, or a file's path.
	Note string
	// Line is the number of its fence in the document, from 1.
	Line int
	Text string
}

// Commands says whether the block has commands.
func (b Block) Commands() bool { return strings.HasPrefix(string(b.Kind), "sh ") }

// Read returns the blocks of a document. A block of an unknown kind, without an end, or indented instead of fenced is
// an error. Read returns the blocks before it with the error.
func Read(document string) ([]Block, error) {
	var blocks []Block
	var open *Block
	before := ""
	for i, line := range strings.Split(document, "\n") {
		info, fenced := strings.CutPrefix(line, "```")
		switch {
		case fenced && open != nil:
			blocks, open = append(blocks, *open), nil
		case fenced:
			kind, note, _ := strings.Cut(info, ": ")
			open = &Block{Kind: Kind(kind), Note: note, Line: i + 1}
			if err := open.check(); err != nil {
				return blocks, fmt.Errorf("line %d: %w", i+1, err)
			}
		case open != nil:
			open.Text += line + "\n"
		case strings.HasPrefix(line, "    ") && strings.TrimSpace(before) == "":
			return blocks, fmt.Errorf("line %d: an indented block has no kind: fence it", i+1)
		}
		before = line
	}
	if open != nil {
		return blocks, fmt.Errorf("line %d: the block has no end", open.Line)
	}
	return blocks, nil
}

// check refuses an unknown kind, a missing note, and a note after a kind that has none.
func (b Block) check() error {
	noted := false
	switch b.Kind {
	case Elsewhere, YAMLFile, JSONFile:
		noted = true
	case Machine, Tree, CI, Output, YAML, JSON, Text:
	case "sh":
		return fmt.Errorf("no suite runs this block of commands: name the suite after the fence")
	default:
		return fmt.Errorf("a block of the unknown kind %q", b.Kind)
	}
	if noted != (b.Note != "") {
		return fmt.Errorf("a block of the kind %q with the note %q", b.Kind, b.Note)
	}
	return nil
}
