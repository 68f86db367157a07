package chaos

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain is a CNI plugin where it is called as one, by its name in a directory of badPlugins.
func TestMain(m *testing.M) {
	if os.Getenv("CNI_COMMAND") != "" {
		if err := actAsPlugin(os.Args[0]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// badPlugins is a directory of CNI plugins that do their work badly, by a seed, while they are told to.
type badPlugins struct{ dir string }

// Files of a badPlugins: seedFile is there while plugins are bad, callsFile has a line for each of their calls then.
const (
	realPlugins = "real"
	seedFile    = "seed"
	callsFile   = "calls"
)

// pluginFaults are what may be wrong with a call. After the work was done they look like failures all the same.
var pluginFaults = []string{"crash before", "crash after", "garbage", "error after", "hang", "twice"}

// newBadPlugins makes the directory. Plugins that others of them call are the real ones.
func newBadPlugins(t *testing.T, workDir, cniBinDir string) badPlugins {
	t.Helper()
	dir, err := os.MkdirTemp(workDir, "plugins")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"bridge": self, "portmap": self, "loopback": filepath.Join(cniBinDir, "loopback"),
		"host-local": filepath.Join(cniBinDir, "host-local"), realPlugins: cniBinDir,
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return badPlugins{dir}
}

func (p badPlugins) begin(t *testing.T, seed uint64) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, seedFile), fmt.Append(nil, seed), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (p badPlugins) end() error { return os.Remove(filepath.Join(p.dir, seedFile)) }

// made counts the calls by what was wrong with them.
func (p badPlugins) made(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, callsFile))
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]int{}
	for line := range strings.Lines(string(text)) {
		made[strings.TrimSpace(line)]++
	}
	return made
}

// actAsPlugin does a plugin's work, well or badly.
func actAsPlugin(self string) error {
	dir, name := filepath.Split(self)
	plugins := badPlugins{dir}
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	fault, err := plugins.draw()
	if err != nil {
		return err
	}
	work := func() ([]byte, error) {
		cmd := exec.Command(filepath.Join(dir, realPlugins, name))
		cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
		return cmd.Output()
	}
	switch fault {
	case "crash before":
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "hang":
		for end := time.Now().Add(8 * time.Second); plugins.bad() && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
	case "twice": // a removal is to be repeatable; of an addition, the second may well fail
		_, _ = work()
	}
	output, failed := work()
	switch fault {
	case "crash after":
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "garbage":
		output = []byte(`{"cniVersion": "1.0.0", "ips": [{"address"`)
	case "error after":
		output, failed = []byte(`{"cniVersion": "1.0.0", "code": 11, "msg": "try again later"}`), fmt.Errorf("the fault of a test")
	}
	_, err = os.Stdout.Write(output)
	if failed != nil {
		return failed
	}
	return err
}

// bad says whether plugins are to be bad.
func (p badPlugins) bad() bool {
	_, err := os.Stat(filepath.Join(p.dir, seedFile))
	return err == nil
}

// draw chooses what is wrong with this call, by the seed and the number of the call.
func (p badPlugins) draw() (string, error) {
	text, err := os.ReadFile(filepath.Join(p.dir, seedFile))
	if os.IsNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var seed uint64
	if _, err := fmt.Sscan(string(text), &seed); err != nil {
		return "", err
	}
	calls, err := os.OpenFile(filepath.Join(p.dir, callsFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer calls.Close()
	if err := syscall.Flock(int(calls.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	before, err := io.ReadAll(calls)
	if err != nil {
		return "", err
	}
	random := rand.New(rand.NewPCG(seed, uint64(bytes.Count(before, []byte("\n")))))
	fault := "none"
	if random.IntN(100) < 25 {
		fault = pluginFaults[random.IntN(len(pluginFaults))]
	}
	_, err = fmt.Fprintln(calls, fault)
	return fault, err
}
