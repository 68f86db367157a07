package ociexec

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/proctable"
)

// keeperVariable makes a program that calls RunKeeper the keeper.
const keeperVariable = "CRIADAPTER_KEEPER"

// request asks the keeper to start a runtime. The command's standard streams come with it.
type request struct {
	ID uint64
	// Cancel ends the start of the earlier request ID. No other field is set then.
	Cancel    bool
	Args, Env []string
	Umask     int
	// PIDFile is the file to which the runtime writes the command's process id.
	PIDFile string
}

// report says that a request's command has started, has ended, or could not be started.
type report struct {
	ID uint64
	// PID is the command's process in the report of its start, 0 in any other report.
	PID int
	// Failed says that the runtime did not start the command, Ended that the command has ended with Code.
	Failed, Ended bool
	Code          int
}

// maxMessage bounds one message to or from the keeper, in bytes.
const maxMessage = 128 << 10

// keeper is the parent of the runtimes and of the commands that they start.
type keeper struct {
	conn *net.UnixConn

	mu sync.Mutex
	// runtimes and commands have the requests by the process ids of runtimes and of commands.
	runtimes map[int]request
	commands map[int]request
	// early has exit codes of commands that were reaped before their runtimes, by the runtime's process id.
	early map[int]int
}

// RunKeeper makes this process the keeper if a Runner has started it as the keeper, and then does not return. In any
// other process it does nothing. A program that uses a Runner calls RunKeeper first in main.
func RunKeeper() {
	if os.Getenv(keeperVariable) == "" {
		return
	}
	if err := runKeeper(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func runKeeper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	// These signals do not end the keeper: it ends with its connection, after it has killed its commands. The keeper
	// catches them, because its commands would inherit ignored signals.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	// Otherwise ps(1) and the kernel's log would call it "exe".
	if err := os.WriteFile("/proc/self/comm", []byte("criadapter-keep"), 0); err != nil {
		return err
	}
	unix.CloseOnExec(lockDescriptor)
	// Containers in the host's PID namespace cannot reach this program's files through /proc (CVE-2019-5736). The
	// runtimes stay dumpable, because execve(2) resets the attribute.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	file := os.NewFile(3, "connection")
	conn, err := net.FileConn(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("the connection is not a unix socket")
	}
	k := &keeper{conn: socket, runtimes: map[int]request{}, commands: map[int]request{}, early: map[int]int{}}
	go func() {
		for range ended {
			k.reap()
		}
	}()
	err = k.serve()
	k.mu.Lock() // this stops reap, so that no process id is reused
	k.killAll()
	return err
}

// serve starts the requested runtimes until the connection ends.
func (k *keeper) serve() error {
	message, control := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(3*4))
	for {
		n, controls, _, _, err := k.conn.ReadMsgUnix(message, control)
		if err != nil || n == 0 {
			return nil
		}
		var r request
		if err := json.Unmarshal(message[:n], &r); err != nil {
			return err
		}
		streams, err := receivedFiles(control[:controls])
		if err != nil {
			return err
		}
		if r.Cancel {
			k.cancel(r.ID)
			continue
		}
		k.start(r, streams)
	}
}

// receivedFiles returns the descriptors of a control message.
func receivedFiles(control []byte) ([]uintptr, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	var files []uintptr
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, err
		}
		for _, fd := range fds {
			files = append(files, uintptr(fd))
		}
	}
	return files, nil
}

// closeAll closes descriptors to which this program has written nothing, so errors do not matter.
func closeAll(files []uintptr) {
	for _, fd := range files {
		_ = syscall.Close(int(fd))
	}
}

// start starts a runtime in the root directory. The three streams are its only descriptors.
func (k *keeper) start(r request, streams []uintptr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	// The umask is the whole process's: mu keeps other starts out, and the keeper itself creates no files.
	unix.Umask(r.Umask)
	pid, err := syscall.ForkExec(r.Args[0], r.Args, &syscall.ProcAttr{
		Dir: "/", Env: r.Env, Files: streams, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	closeAll(streams)
	if err != nil {
		k.tell(report{ID: r.ID, Failed: true})
		return
	}
	k.runtimes[pid] = r
}

// cancel ends the runtime of a request if it is still at work, and the processes that it has started.
func (k *keeper) cancel(id uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for pid, r := range k.runtimes {
		if r.ID == id {
			endRuntime(pid)
		}
	}
}

// tell sends a report. It ignores errors, because serve ends when the connection does.
func (k *keeper) tell(r report) {
	text, err := json.Marshal(r)
	if err == nil {
		_, _ = k.conn.Write(text)
	}
}

// killAll kills the runtimes at work and all commands, with their descendants and sessions. In the host's PID namespace
// a process that an ended command left is a child of the keeper, too. It lives on, as it does under the engine's shim.
func (k *keeper) killAll() {
	since, err := ticksNow()
	if err != nil {
		since = 0 // isLeft is then false for every child, so killAll spares none
	}
	for pid := range k.runtimes {
		since = min(since, began(pid))
		endRuntime(pid)
	}
	deadline := time.Now().Add(deathPatience)
	spare := func(p proctable.Stat) bool { return k.isLeft(p, since) }
	for pid := range killDescendants(os.Getpid(), spare) {
		for proctable.Lives(pid) && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
	}
}

// isLeft reports whether a process is a child of the keeper that an ended command left. The child must have begun
// before limit, in ticks since the boot. A younger child may be the command of a runtime at work, perhaps without a pid
// file yet. It may also be an orphan of a killed process. killAll kills it in both cases.
func (k *keeper) isLeft(p proctable.Stat, limit uint64) bool {
	_, command := k.commands[p.PID]
	return p.Parent == os.Getpid() && !command && began(p.PID) < limit
}

// deathPatience bounds the keeper's wait at its end for the deaths of killed commands. Commands in a frozen cgroup die
// later.
const deathPatience = 2 * time.Second
