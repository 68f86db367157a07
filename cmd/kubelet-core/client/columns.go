package client

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// columnGap is the space between two columns.
const columnGap = 3

// columns aligns rows. It remembers the widths of its columns, so that later rows align with earlier ones.
type columns struct {
	widths []int
}

func (c *columns) write(out io.Writer, rows ...[]string) error {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(c.widths) {
				c.widths = append(c.widths, 0)
			}
			c.widths[i] = max(c.widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", c.widths[i]-utf8.RuneCountInString(cell)+columnGap))
			}
		}
		if _, err := fmt.Fprintln(out, line.String()); err != nil {
			return err
		}
	}
	return nil
}
