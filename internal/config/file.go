package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/internal/yamldoc"
)

// entry is one key of the file.
type entry struct {
	key          string
	value        json.RawMessage
	line, column int // 0 if find does not see the key
}

// origin is the entry's line in a file, or the file alone if the line is not known.
func (e entry) origin(path string) string {
	if e.line == 0 {
		return path
	}
	return fmt.Sprintf("%s:%d", path, e.line)
}

// place is origin with the column.
func (e entry) place(path string) string {
	if e.line == 0 {
		return path
	}
	return fmt.Sprintf("%s:%d:%d", path, e.line, e.column)
}

// parseFile reads the keys of a file in the order of their lines. The error names every unknown key.
func parseFile(path string, raw []byte) ([]entry, error) {
	text, err := yamldoc.Only(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	converted, err := yaml.YAMLToJSONStrict(text) // it refuses a duplicate key
	if err != nil {
		return nil, refusal(path, raw, err)
	}
	if bytes.Equal(bytes.TrimSpace(converted), []byte("null")) {
		return nil, nil // the file has only comments
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(converted, &values); err != nil {
		return nil, fmt.Errorf("%s: a list of settings is expected, each a line such as \"log-level: debug\"", path)
	}
	var entries []entry
	var errs []error
	for key, value := range values {
		line, column := find(raw, key)
		entries = append(entries, entry{key: key, value: value, line: line, column: column})
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(a.line-b.line, a.column-b.column) })
	names := settingNames()
	for _, e := range entries {
		if !slices.Contains(names, e.key) {
			errs = append(errs, fmt.Errorf("%s: unknown setting %q%s", e.place(path), e.key, didYouMean(e.key, names)))
		}
	}
	return entries, errors.Join(errs...)
}

// setTwice finds the line and the key in the parser's message about a duplicate key.
var setTwice = regexp.MustCompile(`line (\d+): key "(.+)" already set in map`)

// refusal returns the error for a file that the parser refuses. For duplicate keys it names both lines of each key, if
// find sees the first one. Otherwise it has the parser's text.
func refusal(path string, raw []byte, err error) error {
	parsers := fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	twice := setTwice.FindAllStringSubmatch(err.Error(), -1)
	if len(twice) == 0 || len(twice) < strings.Count(err.Error(), "\n") { // each fault has its own line in the text
		return parsers
	}
	var errs []error
	for _, match := range twice {
		line, key := match[1], match[2]
		first, _ := find(raw, key)
		if first == 0 || strconv.Itoa(first) == line {
			return parsers
		}
		errs = append(errs, fmt.Errorf("%s:%s: %q is already set in line %d, remove one of the lines", path, line, key,
			first))
	}
	return errors.Join(errs...)
}

// find returns the line and the column of a key, counted from 1. They are 0 for a key that the file spells differently,
// such as with escapes. The parser does not report positions. All keys are at the top level, so the first match counts.
func find(raw []byte, key string) (line, column int) {
	place := regexp.MustCompile(`(?m)(?:^|[{,])[\t ]*(["']?` + regexp.QuoteMeta(key) + `["']?)\s*:`)
	at := place.FindSubmatchIndex(raw)
	if at == nil {
		return 0, 0
	}
	before := raw[:at[2]]
	return bytes.Count(before, []byte("\n")) + 1, at[2] - bytes.LastIndexByte(before, '\n')
}

// didYouMean suggests the most similar name, if there is one.
func didYouMean(name string, names []string) string {
	best, distance := "", len(name)/2+1
	for _, candidate := range names {
		if d := editDistance(strings.ToLower(strings.ReplaceAll(name, "_", "-")), candidate); d < distance {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return "; criadapter config print shows all settings"
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance counts the letters to insert, remove or replace between a and b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
