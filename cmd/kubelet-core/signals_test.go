package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// asProgram is the environment variable that makes the test binary run the program.
const asProgram = "KUBELET_CORE_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestSurvivesSignals checks that the kubelet goes on after SIGHUP and when its log is closed.
func TestSurvivesSignals(t *testing.T) {
	self, err := os.Executable()
	testutil.Must(t, err)
	reader, writer, err := os.Pipe()
	testutil.Must(t, err)
	dir := t.TempDir()
	cmd := exec.Command(self, "run", "--manifests", dir, "--root-dir", filepath.Join(dir, "root"), "--pod-logs-dir",
		filepath.Join(dir, "logs"),
		"--container-runtime-endpoint", "unix://"+dir+"/none.sock", "--read-address=")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout, cmd.Stderr = writer, writer
	testutil.Must(t, cmd.Start())
	ended := testutil.Go(cmd.Wait)
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_ = writer.Close()
	// The kubelet core logs that it waits for its runtime.
	_, err = reader.Read(make([]byte, 1))
	testutil.Must(t, err)
	_ = reader.Close() // now each line of the log causes a SIGPIPE, and each SIGHUP logs a line
	for range 3 {
		testutil.Must(t, cmd.Process.Signal(syscall.SIGHUP))
		select {
		case err := <-ended:
			t.Fatalf("the kubelet ended: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
	testutil.Must(t, cmd.Process.Signal(syscall.SIGTERM))
	testutil.Receive(t, ended, "the kubelet does not end after SIGTERM")
}
