package main

import "regexp"

// pattern is a phrase that is hard to read.
type pattern struct {
	words *regexp.Regexp
	// allowed matches the allowed uses of words. With nil, none is allowed.
	allowed *regexp.Regexp
	// advice says what to write instead.
	advice string
}

// patterns returns the refused phrases. Each has a row in TestPatterns.
func patterns() []pattern {
	return []pattern{
		{phrase(`that of`), nil, `repeat the noun ("the limit of", "its limit")`},
		{phrase(`that which|which that`), nil, `name the thing`},
		{phrase(`those (that|which|who|whose|of)`), nil, `repeat the noun ("pods that", "files of")`},
		{phrase(`of (these|those) the`), nil, `begin a new sentence with the noun`},
		{phrase(`whom`), nil, `name the component, and make it the subject`},
		{phrase(`(one|none|neither|either|each|any) of both`), nil, `write "either", "neither" or "each"`},
		{phrase(`nobody|somebody|someone|anybody|anyone|everybody|everyone|whoever`), nil,
			`name the component, user or caller`},
		{phrase(`told`), phrase(`told apart`), `name who reports, asks or passes it ("the engine reports", "gets")`},
		{phrase(`known to`), nil, `say which component knows it, or only the fact`},
		{phrase(`what (it|they|he|there|this|that|these|those) (is|are|was|were)`), nil, `name the thing`},
		{phrase(`in the place\s+of`), nil, `write "instead of"`},
	}
}

// phrase compiles alternatives of whole words, in either case.
func phrase(words string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + words + `)\b`)
}

// find returns the places of the phrase in a masked text, without allowed uses.
func (p pattern) find(text string) [][]int {
	var found [][]int
	for _, at := range p.words.FindAllStringIndex(text, -1) {
		if good := p.goodAt(text, at[0]); !good {
			found = append(found, at)
		}
	}
	return found
}

func (p pattern) goodAt(text string, start int) bool {
	if p.allowed == nil {
		return false
	}
	at := p.allowed.FindStringIndex(text[start:])
	return at != nil && at[0] == 0
}
