package podspec

import "strings"

// expand replaces $(NAME) by the result of lookup. An unknown name stays as written, and $$ is a dollar: $$(NAME)
// becomes $(NAME).
func expand(text string, lookup func(name string) (string, bool)) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		text = after
		switch {
		case strings.HasPrefix(text, "$"):
			out.WriteByte('$')
			text = text[1:]
		case strings.HasPrefix(text, "("):
			name, rest, closed := strings.Cut(text[1:], ")")
			if !closed {
				out.WriteString("$(")
				text = text[1:]
				continue
			}
			text = rest
			if value, ok := lookup(name); ok {
				out.WriteString(value)
			} else {
				out.WriteString("$(" + name + ")")
			}
		default:
			out.WriteByte('$')
		}
	}
}

func expandAll(texts []string, lookup func(name string) (string, bool)) []string {
	var out []string
	for _, text := range texts {
		out = append(out, expand(text, lookup))
	}
	return out
}
