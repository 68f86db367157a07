package nodeapi

import (
	"net/url"
	"strconv"
)

// boolean reads a flag in the API server's form. An absent flag, "0" and "false" mean false. A flag without a value
// means true.
func boolean(query url.Values, name string) (bool, error) {
	if !query.Has(name) {
		return false, nil
	}
	text := query.Get(name)
	if text == "" {
		return true, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, badRequest("%s: %q is neither true nor false", name, text)
	}
	return value, nil
}

// anyBoolean is like boolean for a flag with two names.
func anyBoolean(query url.Values, name, other string) (bool, error) {
	if !query.Has(name) {
		name = other
	}
	return boolean(query, name)
}

// integer reads a number that must be at least the minimum. It returns nil if the number is absent.
func integer(query url.Values, name string, minimum int64) (*int64, error) {
	text := query.Get(name)
	if text == "" {
		return nil, nil
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, badRequest("%s: %q is not a number", name, text)
	}
	if value < minimum {
		return nil, unprocessable("%s: must be at least %d, is %d", name, minimum, value)
	}
	return &value, nil
}
