// Package logtail reads the end of a program's log, for the message that says how it failed.
package logtail

import (
	"io"
	"os"
)

// Read returns the last size bytes of a file, or why it cannot be read.
func Read(path string, size int64) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > size {
		if _, err := file.Seek(-size, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
