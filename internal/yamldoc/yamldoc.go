// Package yamldoc finds the documents of a YAML text. The YAML library reads only the first one, and silently ignores
// what follows.
package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"sigs.k8s.io/yaml"
)

// byteOrderMark may begin a text, and no document within it. The slice is read-only.
var byteOrderMark = []byte("\ufeff")

// document is one document of a text.
type document struct {
	text []byte
	// before is the number of the text's lines before the document.
	before int
}

// documents cuts a text at the lines that begin or end a YAML document.
func documents(content []byte) []document {
	var all []document
	var current document
	lines := 0
	for line := range bytes.Lines(content) {
		rest, marker := bytes.CutPrefix(line, []byte("---"))
		if !marker {
			rest, marker = bytes.CutPrefix(line, []byte("..."))
		}
		if marker && (len(bytes.TrimSpace(rest)) == 0 || rest[0] == ' ' || rest[0] == '\t') {
			all = append(all, current)
			current = document{text: bytes.Clone(bytes.TrimLeft(rest, " \t")), before: lines}
		} else {
			current.text = append(current.text, line...)
		}
		lines++
	}
	blank := func(d document) bool { return len(bytes.TrimSpace(d.text)) == 0 }
	return slices.DeleteFunc(append(all, current), blank)
}

// Split returns the documents of a text. It cuts at lines that begin or end a YAML document, and leaves out blank
// documents. JSON has no such lines, so it stays one document.
func Split(content []byte) [][]byte {
	var texts [][]byte
	for _, d := range documents(content) {
		texts = append(texts, d.text)
	}
	return texts
}

// Only returns the only document of a text, with its line numbers in the text. It returns nothing for a text with only
// comments. It fails if the text has another document. A document that is not YAML is returned for the parser's error.
func Only(content []byte) ([]byte, error) {
	content = bytes.TrimPrefix(content, byteOrderMark)
	var only []byte
	for _, d := range documents(content) {
		raw, err := yaml.YAMLToJSONStrict(d.text)
		if err == nil {
			if err := checkAlone(d.text, raw); err != nil {
				return nil, err
			}
			if string(raw) == "null" {
				continue
			}
		}
		if only != nil {
			return nil, fmt.Errorf("line %d: another document begins, and only one is read", d.before+1)
		}
		only = append(bytes.Repeat([]byte("\n"), d.before), d.text...)
	}
	return only, nil
}

// JSON converts a document to JSON, which is null for a document with only comments. It fails with ErrInvalidArgument
// for text that is not YAML, and if another document follows in text.
func JSON(text []byte) ([]byte, error) {
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.TrimPrefix(err.Error(), "yaml: "), errdefs.ErrInvalidArgument)
	}
	if err := checkAlone(text, raw); err != nil {
		return raw, fmt.Errorf("%w: %w", err, errdefs.ErrInvalidArgument)
	}
	return raw, nil
}

// checkAlone fails if something follows the first document in text, such as a second JSON object. raw is the first
// document as JSON. YAMLToJSONStrict reads only the first document of a text, but reads a sequence to its end. So
// checkAlone reads text as the only entry of a sequence, and compares the entry with raw.
func checkAlone(text, raw []byte) error {
	text = bytes.TrimPrefix(text, byteOrderMark)
	entry := append([]byte("- "), bytes.ReplaceAll(text, []byte("\n"), []byte("\n  "))...)
	got, err := yaml.YAMLToJSONStrict(entry)
	if err == nil && string(got) == "["+string(raw)+"]" {
		return nil
	}
	const follows = "another document follows without a line of three dashes"
	if err != nil {
		return fmt.Errorf("%s: %s", follows, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return errors.New(follows)
}
