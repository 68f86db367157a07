// Package bounded reads content up to a size limit.
package bounded

import (
	"fmt"
	"io"
)

// ReadAll reads r to its end, which must come within limit bytes. If r has more bytes, ReadAll returns no content and
// an error that begins with name.
func ReadAll(r io.Reader, name string, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return content, err
}
