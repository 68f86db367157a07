package ociexec

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// link is the connection to one keeper.
type link struct {
	conn *net.UnixConn
	// keeper is the keeper's own name, which no other keeper has.
	keeper string
	cmd    *exec.Cmd
	done   chan struct{}

	mu        sync.Mutex
	processes map[uint64]*Process
	// sending is the request that is being sent, 0 for none.
	sending uint64
}

// lockDescriptor is the keeper's descriptor of the lock of its Runner's directory.
const lockDescriptor = 4

// keeperProgram is the name of a keeper's program in lists of processes.
const keeperProgram = "criadapter-keeper"

// keeperLine is the command line of a keeper in /proc. A child that the keeper has forked has it, too, until execve(2).
func keeperLine(keeper string) string { return keeperProgram + "\x00" + keeper + "\x00" }

// newLink starts a keeper: this program again, with the connection and the Runner's lock as its only further
// descriptors, and keeperVariable as its environment. Its argument is its name.
func newLink(lock *os.File) (*link, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "keeper"), os.NewFile(uintptr(pair[1]), "keeper")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	err = errors.Join(err, ours.Close())
	if err != nil {
		return nil, err
	}
	keeper := rand.Text()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{keeperProgram, keeper}
	cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{keeperVariable + "=1"}, "/", []*os.File{theirs, lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	l := &link{
		conn: conn.(*net.UnixConn), keeper: keeper, cmd: cmd, done: make(chan struct{}),
		processes: map[uint64]*Process{},
	}
	go l.receive()
	return l, nil
}

func (l *link) broken() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// send sends a request with its streams.
func (l *link) send(p *Process, ask request, streams [3]*os.File) error {
	text, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	if len(text) > maxMessage {
		return unsuitable("the runtime's command line is too long")
	}
	var fds []int
	for i, stream := range streams {
		if stream == nil {
			mode := os.O_WRONLY
			if i == 0 {
				mode = os.O_RDONLY
			}
			if stream, err = os.OpenFile(os.DevNull, mode, 0); err != nil {
				return err
			}
			defer stream.Close()
		}
		fds = append(fds, int(stream.Fd()))
	}
	l.mu.Lock()
	l.processes[ask.ID], l.sending = p, ask.ID
	l.mu.Unlock()
	err = l.write(text, unix.UnixRights(fds...))
	l.sent(ask.ID, err)
	return err
}

// sent ends the sending of a request. With an error, the keeper has not got the request, and the link drops it. If the
// keeper has ended after it got the request, sent calls lose, because receive leaves out the request that is being
// sent.
func (l *link) sent(id uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sending = 0
	p, found := l.processes[id]
	switch {
	case err != nil:
		delete(l.processes, id)
	case found && l.broken():
		p.lose(l.keeper)
	}
}

// errUnsent says that the keeper has not got a request.
var errUnsent = errors.New("the keeper takes no requests")

// sendTimeout bounds the wait for a keeper that does not read.
const sendTimeout = 5 * time.Second

// write sends one message. A keeper that takes none is killed, and all its commands are lost.
func (l *link) write(text, rights []byte) error {
	err := l.conn.SetWriteDeadline(time.Now().Add(sendTimeout))
	if err == nil {
		_, _, err = l.conn.WriteMsgUnix(text, rights, nil)
	}
	if err != nil {
		_ = l.cmd.Process.Kill() // it may have ended
		return fmt.Errorf("%w: %w", errUnsent, err)
	}
	return nil
}

// cancel asks the keeper to end the start of a command. If that fails, the keeper ends, and the start with it.
func (l *link) cancel(id uint64) {
	text, err := json.Marshal(request{ID: id, Cancel: true})
	if err == nil {
		_ = l.write(text, nil)
	}
}

// keeperTimeout bounds the keeper's end, in which it kills its commands.
const keeperTimeout = 10 * time.Second

// receive passes the keeper's reports on until the keeper ends. Commands that have not ended then get ErrKeeper.
func (l *link) receive() {
	message := make([]byte, maxMessage)
	for {
		n, err := l.conn.Read(message)
		if err != nil || n == 0 {
			break
		}
		var told report
		if json.Unmarshal(message[:n], &told) != nil {
			break
		}
		l.mu.Lock()
		p := l.processes[told.ID]
		if told.Failed || told.Ended {
			delete(l.processes, told.ID)
		}
		l.mu.Unlock()
		if p != nil {
			p.take(told)
		}
	}
	_ = l.conn.Close()
	late := time.AfterFunc(keeperTimeout, func() { _ = l.cmd.Process.Kill() })
	_ = l.cmd.Wait() // its connection has ended, or it ends with the connection
	late.Stop()
	l.mu.Lock()
	for id, p := range l.processes {
		if id != l.sending { // sent calls lose for this one
			p.lose(l.keeper)
		}
	}
	close(l.done)
	l.mu.Unlock()
}

// close ends the keeper, which kills its commands.
func (l *link) close() {
	_ = l.conn.CloseWrite()
	<-l.done
}
