// Package mountquote reads how the kernel quotes names in /proc/PID/mountinfo, see proc(5).
package mountquote

import (
	"strconv"
	"strings"
)

// Unquote replaces a backslash with three octal digits, which stands for a blank, a comma or a backslash, by its
// character. Any other backslash stays.
func Unquote(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if c, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}
