package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestNoCheckpoint(t *testing.T) {
	for name, c := range map[string]struct {
		experimental bool
		files        map[string]os.FileMode
		environ      string
		missing      []string
	}{
		"all is there": {true, map[string]os.FileMode{"7/root/opt/bin/criu": 0o755, checkpointSysctl: 0o644},
			"HOME=/\x00PATH=/bin:/opt/bin\x00", nil},
		"no PATH is set": {true, map[string]os.FileMode{"7/root/usr/sbin/criu": 0o755, checkpointSysctl: 0o644}, "",
			nil},
		"nothing": {false, nil, "", []string{"experimental", "criu", "CONFIG_CHECKPOINT_RESTORE"}},
		"criu elsewhere": {true, map[string]os.FileMode{"7/root/usr/sbin/criu": 0o755, checkpointSysctl: 0o644},
			"PATH=/bin\x00", []string{"criu"}},
		"no program": {true, map[string]os.FileMode{"7/root/usr/sbin/criu": 0o644, checkpointSysctl: 0o644}, "",
			[]string{"criu"}},
		"an old kernel": {true, map[string]os.FileMode{"7/root/usr/sbin/criu": 0o755}, "",
			[]string{"CONFIG_CHECKPOINT_RESTORE"}},
	} {
		t.Run(name, func(t *testing.T) {
			proc := t.TempDir()
			for file, mode := range c.files {
				path := filepath.Join(proc, file)
				testutil.WriteFile(t, path, "")
				testutil.Must(t, os.Chmod(path, mode))
			}
			testutil.WriteFile(t, filepath.Join(proc, "7", "environ"), c.environ)
			got := noCheckpoint(c.experimental, proc, filepath.Join(proc, "7"))
			for _, word := range []string{"experimental", "criu", "CONFIG_CHECKPOINT_RESTORE"} {
				want := strings.Contains(strings.Join(c.missing, " "), word)
				testutil.Assert(t, strings.Contains(got, word) == want, "got %q, want %q in it: %t", got, word, want)
			}
			testutil.Assert(t, (got == "") == (c.missing == nil), "got %q", got)
		})
	}
}
