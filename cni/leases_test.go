package cni

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Leases without content that are older than the boot are removed. All other files of the plugin stay.
func TestSweepLeases(t *testing.T) {
	dir := t.TempDir()
	leases := filepath.Join(dir, "leases", "pods")
	boot, err := bootTime()
	testutil.Must(t, err)
	for name, file := range map[string]struct {
		content string
		age     time.Duration
	}{
		"10.1.0.2": {"", time.Hour}, "10.1.0.3": {"\x00\x00\x00", time.Hour}, "fd00::2": {"", time.Hour},
		"10.1.0.4": {"0123\r\neth0", time.Hour}, "10.1.0.5": {"", -time.Minute},
		"lock": {"", time.Hour}, "last_reserved_ip.0": {"", time.Hour},
	} {
		path := filepath.Join(leases, name)
		testutil.WriteFile(t, path, file.content)
		at := boot.Add(-file.age)
		testutil.Must(t, os.Chtimes(path, at, at))
	}
	config := filepath.Join(dir, "net.d", "10-pods.conflist")
	testutil.WriteFile(t, config, `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
		{"type": "bridge", "ipam": {"type": "host-local", "dataDir": "`+filepath.Join(dir, "leases")+`"}}]}`)
	n, err := New(Options{ConfDir: filepath.Dir(config), BinDirs: []string{dir}, CacheDir: filepath.Join(dir, "cache")})
	testutil.Must(t, err)
	defer n.Close()
	entries, err := os.ReadDir(leases)
	testutil.Must(t, err)
	var left []string
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	testutil.Equal(t, strings.Join(left, " "), "10.1.0.4 10.1.0.5 last_reserved_ip.0 lock", "left are")
}

// TestLeasesOfADirectory checks that a missing directory has no leases, and that an unreadable one is an error.
func TestLeasesOfADirectory(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "10-pods.conf")
	testutil.WriteFile(t, config, `{"cniVersion": "1.0.0", "name": "pods", "type": "bridge",
		"ipam": {"type": "host-local", "dataDir": "`+dir+`"}}`)
	leases, err := Leases(config)
	testutil.Assert(t, err == nil && len(leases) == 0, "without a directory: %v, %v", leases, err)
	testutil.WriteFile(t, filepath.Join(dir, "pods"), "")
	leases, err = Leases(config)
	testutil.Assert(t, err != nil && len(leases) == 0, "with a file for a directory: %v, %v", leases, err)
}

func TestLeaseDirs(t *testing.T) {
	list, err := parseList([]byte(`{"cniVersion": "1.0.0", "name": "pods", "plugins": [
		{"type": "bridge", "ipam": {"type": "host-local"}}, {"type": "x", "ipam": {"type": "dhcp", "dataDir": "/d"}},
		{"type": "portmap"}]}`), t.TempDir())
	testutil.Must(t, err)
	testutil.Equal(t, strings.Join(leaseDirs(list), " "), hostLocalDir, "directories")
}
