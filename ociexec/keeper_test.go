package ociexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/proctable"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/speed"
)

// asServer makes the test binary a server that starts one command in the directory given, and waits.
const asServer = "OCIEXEC_TEST_SERVER"

// asNameless makes the test binary a stopped process whose command line the kernel cannot read.
const asNameless = "OCIEXEC_TEST_NAMELESS"

func TestMain(m *testing.M) {
	RunKeeper()
	if os.Getenv(asNameless) != "" {
		hideCommandLine()
	}
	if dir := os.Getenv(asServer); dir != "" {
		fmt.Fprintln(os.Stderr, serve(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serve prints the process ids of its keeper and its command, and waits to be killed.
func serve(dir string) error {
	r, err := New(filepath.Join(dir, "commands"))
	if err != nil {
		return err
	}
	p, err := r.Start(context.Background(), scriptedContainer(filepath.Join(dir, "runc")), Command{}, [3]*os.File{})
	if err != nil {
		return err
	}
	pid, err := p.Started(context.Background())
	if err == nil {
		fmt.Println(r.link.cmd.Process.Pid, pid)
		select {}
	}
	return err
}

// A server that is killed leaves neither its keeper, nor a command, nor a process that the command has started.
func TestKilledServerLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, "mark")
	writeScript(t, filepath.Join(dir, "runc"), mark,
		`setsid sh -c 'sleep 1000 & echo $! >'$mark'; sleep 1000' & echo $! >$pidfile`)
	server := exec.Command("/proc/self/exe")
	server.Env, server.Stderr = append(os.Environ(), asServer+"="+dir), os.Stderr
	output, err := server.StdoutPipe()
	testutil.Must(t, err)
	testutil.Must(t, server.Start())
	t.Cleanup(func() { _, _ = server.Process.Kill(), server.Wait() })
	var keeper, command int
	_, err = fmt.Fscan(output, &keeper, &command)
	testutil.Must(t, err)
	child := (&scripted{mark: mark}).marked(t)
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", keeper))
	testutil.Must(t, err)
	testutil.Equal(t, string(comm), "criadapter-keep\n", "the keeper's name")
	testutil.Must(t, server.Process.Kill())
	isGone(t, "the keeper", keeper)
	isGone(t, "the command", command)
	isGone(t, "the command's child", child)
}

// scripted is a Runner with a container whose runtime is a shell script. The script has the path of the pid file in
// $pidfile, and the path of a file for the test in $mark.
type scripted struct {
	*Runner
	container *Container
	mark      string
}

func newScripted(t *testing.T, script string) *scripted {
	t.Helper()
	r, err := New(t.TempDir())
	testutil.Must(t, err)
	t.Cleanup(r.Close)
	dir := t.TempDir()
	mark, program := filepath.Join(dir, "mark"), filepath.Join(dir, "runc")
	writeScript(t, program, mark, script)
	return &scripted{r, scriptedContainer(program), mark}
}

func writeScript(t *testing.T, program, mark, script string) {
	t.Helper()
	text := "#!/bin/sh\nmark=" + mark + "\n" +
		`while [ $# -gt 1 ]; do [ "$1" = --pid-file ] && pidfile=$2; shift; done` + "\n" + script
	testutil.Must(t, os.WriteFile(program, []byte(text), 0o700))
}

func scriptedContainer(program string) *Container {
	return &Container{
		id: "0123456789abcdef-no-container", program: program, root: "/",
		environ: []string{"PATH=" + os.Getenv("PATH")}, process: object{}, umask: 0o22,
	}
}

func (s *scripted) start(t *testing.T, command Command) *Process {
	t.Helper()
	p, err := s.Start(t.Context(), s.container, command, [3]*os.File{})
	testutil.Must(t, err)
	return p
}

// marked waits for the process id that the script writes to its mark.
func (s *scripted) marked(t *testing.T) (pid int) {
	t.Helper()
	testutil.Until(t, "the runtime has started a process", func() bool {
		pid = readPID(s.mark)
		return pid != 0
	})
	return pid
}

func isGone(t *testing.T, what string, pid int) {
	t.Helper()
	testutil.Until(t, what+" is gone", func() bool { return !proctable.Lives(pid) })
}

// limited bounds the waits of one test.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// These scripts are runtimes that hang after they have started a command, before they write its process id.
const (
	hangs      = `setsid sleep 1000 & echo $! >$mark; wait`
	hangsApart = `(setsid sleep 1000 & echo $! >$mark); sleep 1000`
)

// The keeper's end kills a command whose process id is in no file.
func TestKeeperKillsCommandsWithoutAFile(t *testing.T) {
	s := newScripted(t, hangsApart)
	s.start(t, Command{})
	command := s.marked(t)
	s.Close()
	isGone(t, "the command", command)
}

// The keeper's end spares processes that an ended command left, and kills processes that a runtime at work has started
// since.
func TestKeeperSparesWhatAnEndedCommandLeft(t *testing.T) {
	for name, next := range map[string]string{
		"no runtime at work": "",
		"a runtime at work":  hangsApart,
		"a command at work":  `setsid sh -c 'sleep 1000 & echo $! >'$mark'; wait' & echo $! >$pidfile`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, `if [ ! -e $mark.left ]; then
				# The command outlives the runtime. A shell reaps a child that ends before it, and hides the end from
				# the keeper.
				wait='while [ -e /proc/'$$' ]; do sleep 0.01; done'
				setsid sh -c 'sleep 1000 & echo $! >'$mark'.left; '"$wait" & echo $! >$pidfile
				exit
			fi
			`+next)
			code, err := s.start(t, Command{}).Wait(limited(t))
			testutil.Require(t, err == nil && code == 0, "the first command: %d, %v", code, err)
			left := readPID(s.mark + ".left")
			t.Cleanup(func() { _ = unix.Kill(left, unix.SIGKILL) })
			time.Sleep(20 * time.Millisecond) // times of processes have steps of 10 ms
			var command int
			if next != "" {
				s.start(t, Command{})
				command = s.marked(t)
			}
			s.Close()
			testutil.Assert(t, proctable.Lives(left), "a process that an ended command left was killed")
			if command != 0 {
				isGone(t, "the second command", command)
			}
		})
	}
}

// A runtime that hangs does not outlive the cancelled start, and neither does its command.
func TestCancelEndsAHangingRuntime(t *testing.T) {
	s := newScripted(t, hangs)
	p := s.start(t, Command{})
	command := s.marked(t)
	p.Cancel()
	_, err := p.Started(limited(t))
	var refused *StartError
	testutil.Assert(t, errors.As(err, &refused), "%v", err)
	isGone(t, "the command", command)
}

// A start whose keeper is killed ends: neither the runtime nor its command goes on.
func TestKilledKeeperLeavesNoStart(t *testing.T) {
	s := newScripted(t, hangs)
	p := s.start(t, Command{})
	command := s.marked(t)
	runtime, err := proctable.Read(command)
	testutil.Must(t, err)
	testutil.Must(t, s.link.cmd.Process.Kill())
	_, err = p.Started(limited(t))
	testutil.Assert(t, errors.Is(err, ErrKeeper), "%v", err)
	isGone(t, "the command", command)
	isGone(t, "the runtime", runtime.Parent)
}

// A runtime that a killed keeper has forked, and that has not reached its execve(2), has the keeper's command line.
func TestStartEndsBeforeItsRuntimeIsExecuted(t *testing.T) {
	forked, other := exec.Command("sleep"), exec.Command("sleep")
	forked.Args, other.Args = []string{keeperProgram, "1000"}, []string{keeperProgram, "2000"}
	for _, cmd := range []*exec.Cmd{forked, other} {
		testutil.Must(t, cmd.Start())
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		pid := cmd.Process.Pid
		testutil.Until(t, "its command line is in /proc", func() bool {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			return err == nil && string(line) == keeperLine(cmd.Args[1])
		})
	}
	testutil.Must(t, endStart(limited(t), "1000", t.TempDir()))
	isGone(t, "the runtime", forked.Process.Pid)
	testutil.Assert(t, proctable.Lives(other.Process.Pid), "the child of another keeper was killed")
}

// The error of endStart must not look like a timeout of the command.
func TestRuntimeThatDoesNotDieIsNoTimeout(t *testing.T) {
	dir := t.TempDir()
	runtime := exec.Command("sh", "-c", "echo up; sleep 1000", dir+"/"+pidFile)
	runtime.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output, err := runtime.StdoutPipe()
	testutil.Must(t, err)
	testutil.Must(t, runtime.Start())
	defer func() {
		_ = unix.Kill(-runtime.Process.Pid, unix.SIGKILL)
		_ = runtime.Wait()
	}()
	_, err = output.Read(make([]byte, 1)) // from here on its command line is in /proc
	testutil.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	err = endStart(ctx, "none", dir)
	testutil.Assert(t, err != nil && !errors.Is(err, context.DeadlineExceeded), "got %v", err)
}

// hideCommandLine makes the page with the beginning of this process's command line unreadable, and stops the process.
func hideCommandLine() {
	page, pid := uintptr(os.Getpagesize()), uintptr(os.Getpid())
	begin := uintptr(unsafe.Pointer(unsafe.StringData(os.Args[0]))) &^ (page - 1)
	if _, _, err := unix.RawSyscall(unix.SYS_MPROTECT, begin, page, unix.PROT_NONE); err == 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_KILL, pid, uintptr(unix.SIGSTOP), 0)
	}
	os.Exit(1)
}

// A process whose command line stays empty is not in the middle of an execve(2), so a start does not wait for it.
func TestEmptyCommandLineIsNoRuntime(t *testing.T) {
	nameless := exec.Command("/proc/self/exe")
	nameless.Env = append(os.Environ(), asNameless+"=1")
	// More than a page of pointers to variables then lies between the first thread's stack and the command line.
	for i := range 1024 {
		nameless.Env = append(nameless.Env, fmt.Sprintf("PAD%d=", i))
	}
	testutil.Must(t, nameless.Start())
	t.Cleanup(func() { _, _ = nameless.Process.Kill(), nameless.Wait() })
	pid := nameless.Process.Pid
	var status unix.WaitStatus
	_, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil)
	testutil.Require(t, err == nil && status.Stopped(), "the process has the status %#x, %v", status, err)
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	testutil.Require(t, err == nil && len(line) == 0, "the command line is %q, %v", line, err)
	testutil.Check(t, endStart(limited(t), "none", t.TempDir()), "the end of a start")
	testutil.Assert(t, proctable.Lives(pid), "the process was killed")
}

// A request that a keeper did not receive before it was killed goes to the next keeper.
func TestRequestsSurviveAKilledKeeper(t *testing.T) {
	s := newScripted(t, `sleep 0 & echo $! >$pidfile`)
	for range 20 {
		s.start(t, Command{})
		_ = s.link.cmd.Process.Kill() // it may have ended
	}
	_, err := s.start(t, Command{}).Started(limited(t))
	testutil.Assert(t, err == nil || errors.Is(err, ErrKeeper), "%v", err)
}

// A keeper that never reads again is killed, although no request waits that long.
func TestKeeperThatNeverReadsIsKilled(t *testing.T) {
	s := newScripted(t, `sleep 1000 & echo $! >$pidfile`)
	first := s.start(t, Command{})
	command, err := first.Started(limited(t))
	testutil.Must(t, err)
	t.Cleanup(func() { _ = unix.Kill(command, unix.SIGKILL) }) // its killed keeper leaves it
	s.link.patience = time.Second
	keeper := s.link.cmd.Process
	testutil.Must(t, keeper.Signal(unix.SIGSTOP))
	t.Cleanup(func() { _ = keeper.Kill() }) // Close waits for the keeper
	s.container.environ = append(s.container.environ, "FILL="+strings.Repeat("x", 60<<10))
	testutil.Until(t, "the keeper is killed", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, _ = s.Start(ctx, s.container, Command{}, [3]*os.File{}) // fails when the connection takes no more
		select {
		case <-first.Ending():
			return true
		default:
			return false
		}
	})
}

// A keeper that stalls delays requests until their contexts end, and loses no command. It gets cancelled starts later.
func TestStalledKeeperLosesNoCommand(t *testing.T) {
	s := newScripted(t, `if [ -e $mark ]; then exec sleep 1000; fi; sleep 1000 & echo $! >$pidfile; cp $pidfile $mark`)
	first := s.start(t, Command{})
	_, err := first.Started(limited(t))
	testutil.Must(t, err)
	keeper := s.link.cmd.Process
	testutil.Must(t, keeper.Signal(unix.SIGSTOP))
	resume := func() { _ = keeper.Signal(unix.SIGCONT) }
	t.Cleanup(resume) // Close waits for the keeper
	s.container.environ = append(s.container.environ, "FILL="+strings.Repeat("x", 60<<10))
	var sent []*Process
	for err == nil { // until the connection takes no more
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		var p *Process
		p, err = s.Start(ctx, s.container, Command{}, [3]*os.File{})
		cancel()
		if err == nil {
			sent = append(sent, p)
		}
	}
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "a request to a stalled keeper: %v", err)
	for _, p := range sent {
		p.Cancel()
	}
	resume()
	var refused *StartError
	for _, p := range sent {
		_, err := p.Started(limited(t))
		testutil.Assert(t, errors.As(err, &refused), "a cancelled start: %v", err)
	}
	select {
	case <-first.Ending():
		t.Error("the first command has ended")
	default:
	}
}

// A runtime that sends no terminal holds up no other command.
func TestMissingTerminalBlocksNoCommand(t *testing.T) {
	s := newScripted(t, `sleep 0.1 & echo $! >$pidfile`)
	slow := s.start(t, Command{Terminal: true})
	time.Sleep(200 * time.Millisecond) // the keeper has reported it
	begun := time.Now()
	p := s.start(t, Command{})
	_, err := p.Started(limited(t))
	testutil.Must(t, err)
	speed.Check(t, "the other command", time.Since(begun), consoleTimeout/2)
	_, err = slow.Started(limited(t))
	testutil.Assert(t, err != nil, "the command has no terminal and no error")
}

// A terminal that comes after its caller has given up is closed.
func TestReleasedTerminalIsClosed(t *testing.T) {
	dir := t.TempDir()
	console, err := listenConsole(dir)
	testutil.Must(t, err)
	p := &Process{dir: dir, console: console, started: make(chan struct{}), ended: make(chan struct{})}
	p.Release()
	p.take(report{PID: os.Getpid()})
	wantClosed := sendTerminals(t, dir, 1)
	wantClosed("the terminal")
}

// Descriptors that come with another number than one are closed.
func TestSuperfluousTerminalsAreClosed(t *testing.T) {
	dir := t.TempDir()
	console, err := listenConsole(dir)
	testutil.Must(t, err)
	defer console.Close()
	wantClosed := sendTerminals(t, dir, 2)
	_, err = receiveTerminal(console)
	testutil.Assert(t, err != nil, "two descriptors are a terminal")
	wantClosed("a descriptor")
}

// sendTerminals sends one end of a pipe to the console in dir, as a runtime sends its terminal, n times in one message.
// wantClosed fails the test unless the receiver closes them all.
func sendTerminals(t *testing.T, dir string, n int) (wantClosed func(what string)) {
	t.Helper()
	conn, err := net.Dial("unix", filepath.Join(dir, consoleFile))
	testutil.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	reader, writer, err := os.Pipe()
	testutil.Must(t, err)
	t.Cleanup(func() { _ = reader.Close() })
	rights := unix.UnixRights(slices.Repeat([]int{int(writer.Fd())}, n)...)
	_, _, err = conn.(*net.UnixConn).WriteMsgUnix([]byte("/dev/pts/0"), rights, nil)
	testutil.Must(t, errors.Join(err, writer.Close()))
	return func(what string) {
		t.Helper()
		testutil.Must(t, reader.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := reader.Read(make([]byte, 1))
		testutil.Assert(t, errors.Is(err, io.EOF), "%s is open: %v", what, err)
	}
}

// keeperOf makes a keeper without a process of its own, and the connection to it.
func keeperOf(t *testing.T) (*keeper, net.Conn) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	testutil.Must(t, err)
	var conns [2]net.Conn
	for i, fd := range pair {
		file := os.NewFile(uintptr(fd), "")
		conns[i], err = net.FileConn(file)
		testutil.Must(t, errors.Join(err, file.Close()))
		t.Cleanup(func() { _ = conns[i].Close() })
	}
	k := &keeper{runtimes: map[int]request{}, commands: map[int]request{}, early: map[int]int{}}
	k.conn = conns[0].(*net.UnixConn)
	return k, conns[1]
}

// reports are the texts of all reports that the keeper has sent.
func reports(t *testing.T, k *keeper, conn net.Conn) string {
	t.Helper()
	testutil.Must(t, k.conn.Close())
	var all []string
	message := make([]byte, maxMessage)
	for {
		n, err := conn.Read(message)
		if err != nil || n == 0 {
			return strings.Join(all, ", ")
		}
		var told report
		testutil.Must(t, json.Unmarshal(message[:n], &told))
		all = append(all, fmt.Sprintf("%+v", told))
	}
}

// A process that a command left behind ends, and a later command gets its process id. The later command does not count
// as ended.
func TestReusedProcessIDIsNoEnd(t *testing.T) {
	const left, runtime = 70, 80
	k, conn := keeperOf(t)
	file := filepath.Join(t.TempDir(), "pid")
	k.runtimes[runtime] = request{ID: 5, PIDFile: file}
	k.ended(left, 9)
	testutil.Must(t, os.WriteFile(file, []byte(strconv.Itoa(left)), 0o600))
	k.ended(runtime, 0)
	want := "{ID:5 PID:70 Failed:false Ended:false Code:0}"
	testutil.Equal(t, reports(t, k, conn), want, "the reports")
}

// A command that has ended before its runtime is reported with its own exit code.
func TestCommandEndsBeforeItsRuntime(t *testing.T) {
	const command, runtime = 70, 80
	k, conn := keeperOf(t)
	file := filepath.Join(t.TempDir(), "pid")
	k.runtimes[runtime] = request{ID: 5, PIDFile: file}
	testutil.Must(t, os.WriteFile(file, []byte(strconv.Itoa(command)), 0o600))
	k.ended(command, 9)
	k.ended(runtime, 0)
	want := "{ID:5 PID:70 Failed:false Ended:false Code:0}, {ID:5 PID:0 Failed:false Ended:true Code:9}"
	testutil.Equal(t, reports(t, k, conn), want, "the reports")
}
