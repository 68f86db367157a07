package ociexec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// fakeProcess writes what sameInheritance reads of a process.
func fakeProcess(t *testing.T, proc, name string, change map[string]string) {
	t.Helper()
	fields := map[string]string{
		"Seccomp": "0", "Seccomp_filters": "0", "NoNewPrivs": "0", "Cpus_allowed": "3", "nice": "0", "policy": "0",
		"net":    "net:[1]",
		"CapBnd": "000001ffffffffff", "CapPrm": "000001ffffffffff", "CapEff": "000001ffffffffff", "label": "unconfined",
	}
	for field, value := range change {
		fields[field] = value
	}
	dir := filepath.Join(proc, name)
	testutil.Must(t, os.MkdirAll(filepath.Join(dir, "ns"), 0o700))
	testutil.Must(t, os.MkdirAll(filepath.Join(dir, "attr"), 0o700))
	testutil.Must(t, os.Symlink(fields["net"], filepath.Join(dir, "ns/net")))
	var status strings.Builder
	for field, value := range fields {
		fmt.Fprintf(&status, "%s:\t%s\n", field, value)
	}
	rest := strings.Fields(strings.Repeat("0 ", 50))
	rest[16], rest[38] = fields["nice"], fields["policy"]
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "status"), []byte(status.String()), 0o600))
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "stat"), []byte("1 (a) b) "+strings.Join(rest, " ")), 0o600))
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "attr/current"), []byte(fields["label"]+"\n"), 0o600))
}

// What a command would inherit differently sends it through the engine.
func TestSameInheritance(t *testing.T) {
	plain := object{"oomScoreAdj": 0}
	tests := []struct {
		name    string
		own     map[string]string
		process object
		fault   string
	}{
		{"the same", nil, plain, ""},
		{"a filter", map[string]string{"Seccomp": "2"}, plain, "Seccomp is 0"},
		{"one more filter", map[string]string{"Seccomp_filters": "1"}, plain, "Seccomp_filters"},
		{"no new privileges", map[string]string{"NoNewPrivs": "1"}, plain, "NoNewPrivs"},
		{"a bounding set", map[string]string{"CapBnd": "000001fffdffffff"}, plain, "CapBnd"},
		{"more capabilities", map[string]string{"CapEff": "000003ffffffffff"}, plain, ""},
		{"a nice value", map[string]string{"nice": "5"}, plain, "nice"},
		{"a policy", map[string]string{"policy": "3"}, plain, "policy"},
		{"fewer CPUs", map[string]string{"Cpus_allowed": "1"}, plain, "Cpus_allowed"},
		{"a namespace", map[string]string{"net": "net:[2]"}, plain, "net namespace"},
		{"a label", map[string]string{"label": "mine"}, plain, "label"},
		{"a replaced label", map[string]string{"label": "mine"}, object{"oomScoreAdj": 0, "apparmorProfile": "p"}, ""},
		{"no profile", map[string]string{"label": "mine"}, object{"oomScoreAdj": 0, "apparmorProfile": ""}, "label"},
		{"no score", nil, object{}, "oomScoreAdj"},
	}
	for _, tt := range tests {
		proc := t.TempDir()
		fakeProcess(t, proc, "self", tt.own)
		fakeProcess(t, proc, "7", nil)
		err := sameInheritance(proc, 7, tt.process)
		if tt.fault == "" && err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if tt.fault != "" && (!errors.Is(err, ErrUnsuitable) || !strings.Contains(err.Error(), tt.fault)) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
