package ociexec

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/proctable"
)

// keeperVariable makes a program that calls RunKeeper the keeper.
const keeperVariable = "CRIADAPTER_KEEPER"

// request asks the keeper to start a runtime. The command's standard streams come with it.
type request struct {
	ID        uint64
	Container string
	Args, Env []string
	Umask     int
	// PIDFile is the file to which the runtime writes the command's process id.
	PIDFile string
}

// report is the outcome of a request.
type report struct {
	ID uint64
	// PID is the command's process when it has started, 0 otherwise.
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
	// runtimes and commands are requests by process id.
	runtimes map[int]request
	commands map[int]request
	// orphans are exit codes by process id. An orphan may be a command whose runtime has not ended yet.
	orphans map[int]int
}

// RunKeeper makes this process the keeper and does not return, if a Runner has started the process for that. Programs
// that use a Runner call it first in main.
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
	// These signals do not end the keeper: it ends with its connection, after it has killed its commands. They are
	// caught, because the commands would inherit ignored signals.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	file := os.NewFile(3, "connection")
	conn, err := net.FileConn(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("the connection is no unix socket")
	}
	k := &keeper{conn: socket, runtimes: map[int]request{}, commands: map[int]request{}, orphans: map[int]int{}}
	go func() {
		for range ended {
			k.reap()
		}
	}()
	err = k.serve()
	k.mu.Lock() // reap stops, so that no process id is reused
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

// start starts a runtime in the root directory. The three streams are its only descriptors.
func (k *keeper) start(r request, streams []uintptr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	unix.Umask(r.Umask) // the lock is held, and the keeper makes no files of its own
	pid, err := syscall.ForkExec(r.Args[0], r.Args, &syscall.ProcAttr{
		Dir: "/", Env: r.Env, Files: streams, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	for _, fd := range streams {
		_ = syscall.Close(int(fd))
	}
	if err != nil {
		k.tell(report{ID: r.ID, Failed: true})
		return
	}
	k.runtimes[pid] = r
}

// reap collects all children that have ended.
func (k *keeper) reap() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			break
		}
		code := status.ExitStatus()
		if status.Signaled() {
			code = 128 + int(status.Signal())
		}
		k.ended(pid, code)
	}
	if len(k.runtimes) == 0 {
		clear(k.orphans) // no runtime is left that could have started them
	}
}

// ended handles the end of a child.
func (k *keeper) ended(pid, code int) {
	if r, found := k.commands[pid]; found {
		delete(k.commands, pid)
		k.tell(report{ID: r.ID, Ended: true, Code: code})
		return
	}
	r, found := k.runtimes[pid]
	if !found {
		k.orphans[pid] = code
		return
	}
	delete(k.runtimes, pid)
	command := readPID(r.PIDFile)
	if code != 0 || command == 0 {
		k.tell(report{ID: r.ID, Failed: true, Code: code})
		return
	}
	k.tell(report{ID: r.ID, PID: command})
	if code, found := k.orphans[command]; found {
		delete(k.orphans, command)
		k.tell(report{ID: r.ID, Ended: true, Code: code})
		return
	}
	k.commands[command] = r
}

func readPID(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return 0
	}
	return pid
}

// tell sends a report. It ignores errors, because serve ends when the connection does.
func (k *keeper) tell(r report) {
	text, err := json.Marshal(r)
	if err == nil {
		_, _ = k.conn.Write(text)
	}
}

// killRounds is the largest number of searches for new descendants.
const killRounds = 10

// killAll kills all commands with their descendants and sessions, and the runtimes at work. A runtime that is killed
// while it works leaves no command: its processes outside the container are in its process group.
func (k *keeper) killAll() {
	for pid := range k.runtimes {
		_ = unix.Kill(-pid, unix.SIGKILL)
		if command := readPID(k.runtimes[pid].PIDFile); command != 0 {
			k.commands[command] = k.runtimes[pid]
		}
	}
	for range killRounds {
		killed := 0
		all, err := proctable.All()
		if err != nil {
			return
		}
		for pid, r := range k.commands {
			killed += killTree(all, pid, r.Container)
		}
		if killed == 0 {
			return
		}
	}
}

// killTree kills the container's processes among a command, its descendants and its session. It returns how many of
// them still lived.
func killTree(all []proctable.Stat, pid int, container string) (killed int) {
	for _, victim := range proctable.Tree(all, pid) {
		if !proctable.InContainer(victim, container) {
			continue
		}
		if unix.Kill(victim, unix.SIGKILL) == nil && proctable.Lives(victim) {
			killed++
		}
	}
	return killed
}
