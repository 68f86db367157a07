// Package bounded reads contents that must not be long.
package bounded

import (
	"fmt"
	"io"
)

// ReadAll reads to the end, of at most limit bytes. A longer content is an error that begins with name: the rest would
// be missing. ReadAll then returns no content.
func ReadAll(r io.Reader, name string, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return content, err
}
