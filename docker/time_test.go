package docker

import "testing"

// FuzzParseTime checks that any text gives a time that CRI can express.
func FuzzParseTime(f *testing.F) {
	for _, seed := range []string{"0001-01-01T00:00:00Z", "2024-05-06T07:08:10.123456789Z", "", "0000-00-00T00:00:00Z",
		"9999-12-31T23:59:59.999999999Z", "2024-05-06T07:08:10+14:00", "1-1-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := ParseTime(text)
		if !got.IsZero() && (got.Year() <= 1 || got.Year() > 9999) {
			t.Errorf("%q became %v", text, got)
		}
	})
}
