package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// asProgram makes the test binary the program.
const asProgram = "KUBELET_CORE_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A kubelet goes on when its terminal closes, when a unit reloads it, and when nobody reads its log.
func TestSurvivesSignals(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(self, "run", "--manifests", dir, "--root-dir", filepath.Join(dir, "root"), "--pod-logs-dir", filepath.Join(dir, "logs"),
		"--container-runtime-endpoint", "unix://"+dir+"/none.sock", "--read-address=")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_ = writer.Close()
	// It waits for its runtime, and says so.
	if _, err := reader.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = reader.Close() // from here on each line of the log is a SIGPIPE, and there is one for each SIGHUP
	for range 3 {
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("it does not end after SIGTERM")
	}
}
