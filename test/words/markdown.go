package main

import "strings"

// checkMarkdown returns the findings of a document: the phrases in its prose and tables, without the fenced blocks.
func checkMarkdown(content []byte, patterns []pattern) []finding {
	var found []finding
	var p prose
	fenced := false
	flush := func() {
		found = append(found, p.check(patterns, false)...)
		p = prose{}
	}
	for i, line := range strings.Split(string(content), "\n") {
		text := strings.TrimSpace(line)
		fence := strings.HasPrefix(text, "```")
		if fence {
			fenced = !fenced
		}
		if text == "" || fence || fenced || listItem.MatchString(text) || strings.ContainsAny(text[:1], "|#") {
			flush()
		}
		if text != "" && !fence && !fenced {
			p.add(text, i+1)
		}
	}
	flush()
	return found
}
