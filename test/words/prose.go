package main

import (
	"fmt"
	"regexp"
	"sort"
	"strings"
	"unicode"
)

// longest is the largest number of words in a sentence.
const longest = 25

// prose is a paragraph: one comment, list item or message without its line breaks.
type prose struct {
	text string
	// starts has the offset in text at which each line begins, and lines has its line number in the file.
	starts, lines []int
}

// add appends a line of a file.
func (p *prose) add(text string, line int) {
	if p.text != "" {
		p.text += " "
	}
	p.glue(text, line)
}

// glue appends text of a line without a space before it.
func (p *prose) glue(text string, line int) {
	p.starts, p.lines = append(p.starts, len(p.text)), append(p.lines, line)
	p.text += text
}

// line returns the line of an offset in text.
func (p *prose) line(offset int) int {
	return p.lines[max(0, sort.SearchInts(p.starts, offset+1)-1)]
}

// listItem is the beginning of an item of a list.
var listItem = regexp.MustCompile(`^([-*+]|[0-9]+[.)]) `)

// paragraphs divides lines as gofmt divides a doc comment. Indented lines are code and left out, unless they belong to
// an item of a list.
func paragraphs(lines []string, first int) []prose {
	var all []prose
	open, item := false, false
	for i, line := range lines {
		text := strings.TrimSpace(line)
		starts, indented := listItem.MatchString(text), strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t")
		switch {
		case text == "":
			open, item = false, false
			continue
		case starts:
			open, item = false, true
		case indented && !item:
			open = false
			continue
		}
		if !open {
			all, open = append(all, prose{}), true
		}
		all[len(all)-1].add(text, first+i)
	}
	return all
}

var (
	// quotation is quoted text. It may have any words, and counts as one word.
	quotation = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|“[^”]*”")
	// end ends a sentence, or a clause that could be one.
	end = regexp.MustCompile(`[.;:!?]["')\]]*(\s+|$)`)
	// abbreviation has a full stop that ends no sentence.
	abbreviation = regexp.MustCompile(`(?i)(^|[\s(])(e\.g|i\.e|vs|cf|etc|no)\.$`)
)

// mask replaces quotations by text of the same length, so that offsets stay valid.
func mask(text string) string {
	return quotation.ReplaceAllStringFunc(text, func(quoted string) string { return strings.Repeat("`", len(quoted)) })
}

// check returns the findings in the words of a paragraph and, with sentences, in the length of its sentences.
func (p *prose) check(patterns []pattern, sentences bool) []finding {
	var found []finding
	text := mask(p.text)
	for _, pattern := range patterns {
		for _, at := range pattern.find(text) {
			found = append(found, finding{line: p.line(at[0]),
				says: fmt.Sprintf("%q: %s", text[at[0]:at[1]], pattern.advice)})
		}
	}
	if !sentences {
		return found
	}
	for start := 0; start < len(text); {
		stop := sentenceEnd(text, start)
		if n := count(text[start:stop]); n > longest {
			found = append(found, finding{line: p.line(start),
				says: fmt.Sprintf("a sentence of %d words, at most %d: %s", n, longest, beginning(p.text[start:stop]))})
		}
		start = stop
	}
	return found
}

// sentenceEnd returns where the sentence that begins at start ends.
func sentenceEnd(text string, start int) int {
	at := start
	for {
		found := end.FindStringIndex(text[at:])
		if found == nil {
			return len(text)
		}
		if !abbreviation.MatchString(text[start : at+found[0]+1]) {
			return at + found[1]
		}
		at += found[1]
	}
}

// count counts the words of a sentence. Of a list of identifiers or quotations only the first counts.
func count(sentence string) int {
	n, listed := 0, false
	for _, field := range strings.Fields(sentence) {
		word := strings.Trim(field, "()[]{}.,;:!?\"'*")
		switch {
		case word == "" || !identifier.MatchString(word) && !strings.ContainsFunc(word, unicode.IsLetter):
			continue // a dash or a number
		case listed && (word == "and" || word == "or"):
			n++
			continue
		case !identifier.MatchString(word):
			n, listed = n+1, false
			continue
		case !listed:
			n++
		}
		listed = true
	}
	return n
}

// identifier is a name of a program, file, field, flag or option, or a masked quotation.
var identifier = regexp.MustCompile("^`|[a-z][A-Z]|^[A-Z]{2}|[_/=.]|^-|%")

// beginning returns the first words of a sentence.
func beginning(sentence string) string {
	fields := strings.Fields(sentence)
	return strings.Join(fields[:min(8, len(fields))], " ") + " …"
}
