package ociexec

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// link is the connection to one keeper.
type link struct {
	conn *net.UnixConn
	cmd  *exec.Cmd
	done chan struct{}

	mu        sync.Mutex
	processes map[uint64]*Process
}

// newLink starts a keeper: this program again, with the connection as its only further descriptor and keeperVariable as
// its environment.
func newLink() (*link, error) {
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
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"criadapter-keeper"}
	cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{keeperVariable + "=1"}, "/", []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	l := &link{conn: conn.(*net.UnixConn), cmd: cmd, done: make(chan struct{}), processes: map[uint64]*Process{}}
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
	l.processes[ask.ID] = p
	l.mu.Unlock()
	if _, _, err := l.conn.WriteMsgUnix(text, unix.UnixRights(fds...), nil); err != nil {
		l.forget(ask.ID)
		return err
	}
	return nil
}

func (l *link) forget(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.processes, id)
}

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
	_ = l.cmd.Wait() // its connection has ended, or it ends with the connection
	l.mu.Lock()
	for _, p := range l.processes {
		p.lose()
	}
	close(l.done)
	l.mu.Unlock()
}

// close ends the keeper, which kills its commands.
func (l *link) close() {
	_ = l.conn.CloseWrite()
	<-l.done
}
