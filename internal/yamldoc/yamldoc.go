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

// Split returns the documents of a text. It cuts at lines that begin or end a YAML document, and leaves out blank
// documents. JSON has no such lines, so it stays one document.
func Split(content []byte) [][]byte {
	var parts [][]byte
	var part []byte
	for line := range bytes.Lines(content) {
		rest, marker := bytes.CutPrefix(line, []byte("---"))
		if !marker {
			rest, marker = bytes.CutPrefix(line, []byte("..."))
		}
		if marker && (len(bytes.TrimSpace(rest)) == 0 || rest[0] == ' ' || rest[0] == '\t') {
			parts = append(parts, part)
			part = append([]byte(nil), bytes.TrimLeft(rest, " \t")...)
			continue
		}
		part = append(part, line...)
	}
	return slices.DeleteFunc(append(parts, part), func(part []byte) bool { return len(bytes.TrimSpace(part)) == 0 })
}

// JSON converts a document to JSON, which is null for a document with only comments. It fails with ErrInvalidArgument
// for text that is not YAML, and if another document follows in text.
func JSON(text []byte) ([]byte, error) {
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.TrimPrefix(err.Error(), "yaml: "), errdefs.ErrInvalidArgument)
	}
	if err := alone(text, raw); err != nil {
		return raw, fmt.Errorf("%w: %w", err, errdefs.ErrInvalidArgument)
	}
	return raw, nil
}

// alone fails if something follows the first document in text, such as a second JSON object. raw is the first document
// as JSON. YAMLToJSONStrict reads only the first document of a text, but reads a sequence to its end. So alone reads
// text as the only entry of a sequence, and compares the entry with raw.
func alone(text, raw []byte) error {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // it may only begin a file
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
