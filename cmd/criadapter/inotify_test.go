package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The program starts even if other processes of its user hold all inotify instances. The limit applies to the user
// namespace of this test.
func TestStartsWithoutInotify(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "cri.sock")
	script := `echo 0 > /proc/sys/user/max_inotify_instances && exec "$0" --container-runtime-endpoint=unix://` +
		socket + plainFlags(dir) +
		` --network-plugin=cni --cni-conf-dir=` + dir + ` --cni-bin-dir=` + dir
	startProgram(t, socket, script, func(cmd *exec.Cmd) { cmd.SysProcAttr = testutil.RootOfUserNamespace() })
}
