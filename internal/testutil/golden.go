package testutil

import "testing"

// Golden fails the test unless the file has this text. With update it writes the file instead.
func Golden(t testing.TB, path, got string, update bool) {
	t.Helper()
	if update {
		WriteFile(t, path, got)
	}
	if want := ReadFile(t, path); got != want {
		t.Errorf("%s differs (go test . -update in the directory of this test writes it anew), got:\n%s", path, got)
	}
}
