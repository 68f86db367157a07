package translate

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPath is PATH_MAX of Linux with its terminating NUL, in bytes.
const maxPath = 4096

// checkText rejects invalid UTF-8 and control characters, which JSON or a line-based file would change.
func checkText(field, text string) error {
	if !utf8.ValidString(text) {
		return invalid(field, "is not valid UTF-8")
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return invalid(field, "%q holds a control character", text)
	}
	return nil
}

// checkArgument rejects NUL bytes, which process arguments and environment values cannot hold, and invalid UTF-8, which
// JSON cannot hold. Line breaks are allowed.
func checkArgument(field, text string) error {
	if !utf8.ValidString(text) {
		return invalid(field, "is not valid UTF-8, which the Docker API cannot carry")
	}
	if strings.ContainsRune(text, 0) {
		return invalid(field, "holds a NUL byte")
	}
	return nil
}

// checkPath rejects an empty path, a path longer than PATH_MAX, and text that checkArgument rejects.
func checkPath(field, name string) error {
	if name == "" {
		return invalid(field, "is empty, give a path")
	}
	if len(name) >= maxPath {
		return invalid(field, "has %d bytes, a path has at most %d", len(name), maxPath-1)
	}
	return checkArgument(field, name)
}

// absolutePath checks that a path is absolute and returns it cleaned.
func absolutePath(field, name string) (string, error) {
	if err := checkPath(field, name); err != nil {
		return "", err
	}
	if !path.IsAbs(name) {
		return "", invalid(field, "%q is not an absolute path", name)
	}
	return path.Clean(name), nil
}

// isAlphanumeric reports whether c is an ASCII letter or digit.
func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
