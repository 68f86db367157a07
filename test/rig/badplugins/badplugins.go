// Package badplugins provides CNI plugins that fail between Begin and End, in calls that a seed chooses. The program
// that uses this package is itself the plugin: its main function first calls ActAsPlugin.
package badplugins

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Plugins is a directory of plugins.
type Plugins struct {
	// Dir is the directory for --cni-bin-dir.
	Dir string
}

// Files in Plugins.Dir. realPlugins is a link to the directory of the real plugins. orderFile exists between Begin and
// End. callsFile has a line for each call between Begin and End. Calls after a later Begin are added to it.
const (
	realPlugins = "real"
	orderFile   = "order"
	callsFile   = "calls"
)

// hangs is the longest time that a call hangs. End also ends it.
const hangs = 8 * time.Second

// The faults of a call. With CrashAfter, Garbage and ErrorAfter, the plugin does its work and the call still looks
// failed.
const (
	CrashBefore = "crash before"
	CrashAfter  = "crash after"
	Garbage     = "garbage"
	ErrorAfter  = "error after"
	Hang        = "hang"
	Twice       = "twice"
)

// Faults returns all faults.
func Faults() []string { return []string{CrashBefore, CrashAfter, Garbage, ErrorAfter, Hang, Twice} }

// order is the content of orderFile. Of 100 calls, about Percent go wrong, each with one of Faults. Seed chooses them.
type order struct {
	Seed    uint64
	Percent int
	Faults  []string
}

// New makes a directory in workDir, which the caller removes. The running program replaces the plugins bridge and
// portmap; host-local and loopback are the real ones.
func New(workDir, cniBinDir string) (Plugins, error) {
	self, err := os.Executable()
	if err != nil {
		return Plugins{}, err
	}
	dir, err := os.MkdirTemp(workDir, "plugins")
	if err != nil {
		return Plugins{}, err
	}
	var errs []error
	for name, target := range map[string]string{
		"bridge": self, "portmap": self, "loopback": filepath.Join(cniBinDir, "loopback"),
		"host-local": filepath.Join(cniBinDir, "host-local"), realPlugins: cniBinDir,
	} {
		errs = append(errs, os.Symlink(target, filepath.Join(dir, name)))
	}
	return Plugins{dir}, errors.Join(errs...)
}

// Begin makes percent of the calls go wrong, each with one of the faults.
func (p Plugins) Begin(seed uint64, percent int, faults ...string) error {
	text, err := json.Marshal(order{Seed: seed, Percent: percent, Faults: faults})
	if err != nil {
		return err
	}
	// A plugin may read orderFile at any time. With the rename, no plugin reads a part of it.
	temporary := filepath.Join(p.Dir, orderFile+".new")
	if err := os.WriteFile(temporary, text, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(p.Dir, orderFile))
}

// End ends the faults.
func (p Plugins) End() error { return os.Remove(filepath.Join(p.Dir, orderFile)) }

// Made counts all calls so far between a Begin and its End, by fault. Calls under "none" went well.
func (p Plugins) Made() (map[string]int, error) {
	text, err := os.ReadFile(filepath.Join(p.Dir, callsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	made := map[string]int{}
	for line := range strings.Lines(string(text)) {
		made[strings.TrimSpace(line)]++
	}
	return made, nil
}

// ActAsPlugin returns at once unless the program is called as a CNI plugin. Then it does the plugin's work, well or
// badly, and exits.
func ActAsPlugin() {
	if os.Getenv("CNI_COMMAND") == "" {
		return
	}
	if err := act(os.Args[0]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func act(self string) error {
	dir, name := filepath.Split(self)
	plugins := Plugins{dir}
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
	case CrashBefore:
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case Hang:
		for end := time.Now().Add(hangs); plugins.bad() && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
	case Twice: // a second DEL must succeed, a second ADD may fail
		_, _ = work()
	}
	output, failed := work()
	switch fault {
	case CrashAfter:
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case Garbage:
		output = []byte(`{"cniVersion": "1.0.0", "ips": [{"address"`)
	case ErrorAfter:
		output = []byte(`{"cniVersion": "1.0.0", "code": 11, "msg": "try again later"}`)
		failed = errors.New("the fault of a test")
	}
	_, err = os.Stdout.Write(output)
	if failed != nil {
		return failed
	}
	return err
}

// bad says whether calls may go wrong now.
func (p Plugins) bad() bool {
	_, err := os.Stat(filepath.Join(p.Dir, orderFile))
	return err == nil
}

// draw chooses the fault of this call by the seed and the number of the call.
func (p Plugins) draw() (string, error) {
	text, err := os.ReadFile(filepath.Join(p.Dir, orderFile))
	if os.IsNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var order order
	if err := json.Unmarshal(text, &order); err != nil {
		return "", err
	}
	calls, err := os.OpenFile(filepath.Join(p.Dir, callsFile), os.O_CREATE|os.O_RDWR, 0o644)
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
	fault := order.fault(uint64(bytes.Count(before, []byte("\n"))))
	_, err = fmt.Fprintln(calls, fault)
	return fault, err
}

// fault returns the fault of a call by its number, or "none".
func (o order) fault(call uint64) string {
	random := rand.New(rand.NewPCG(o.Seed, call))
	if random.IntN(100) >= o.Percent {
		return "none"
	}
	return o.Faults[random.IntN(len(o.Faults))]
}
