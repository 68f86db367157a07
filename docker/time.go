package docker

import "time"

// ParseTime parses a time of the engine. It returns the zero time for the engine's zero time and for garbage.
func ParseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}
