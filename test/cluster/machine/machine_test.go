package machine

import "testing"

// Nothing is changed by keeping and restoring what nobody touched, and every value is found.
func TestSysctlsAreKept(t *testing.T) {
	before := make(map[string]string)
	for _, name := range kubeletSysctls {
		value, err := readSysctl(name)
		if err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		before[name] = value
	}
	if len(before) < 4 {
		t.Errorf("only %v", before)
	}
	restore, err := keepSysctls()
	if err != nil {
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	for name, want := range before {
		if got, err := readSysctl(name); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}
