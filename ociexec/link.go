package ociexec

import (
	"context"
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
	// turn has one value while a message is being sent.
	turn chan struct{}
	// patience is stallTimeout, except in tests.
	patience time.Duration

	mu        sync.Mutex
	processes map[uint64]*Process
	// sending is the request that is being sent, 0 for none.
	sending uint64
}

// lockDescriptor is the keeper's descriptor for the lock of its Runner's directory.
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
		turn: make(chan struct{}, 1), patience: stallTimeout, processes: map[uint64]*Process{},
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

// send sends a request with its streams. If ctx ends first, the keeper does not get the request.
func (l *link) send(ctx context.Context, p *Process, ask request, streams [3]*os.File) error {
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
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.endTurn()
	l.mu.Lock()
	l.processes[ask.ID], l.sending = p, ask.ID
	l.mu.Unlock()
	err = l.write(ctx, text, unix.UnixRights(fds...))
	l.sent(ask.ID, err)
	if err != nil && ctx.Err() != nil {
		l.cancel(ask.ID) // so a keeper that never reads again is killed, even if all requests end sooner
	}
	return err
}

// sent ends the sending of a request. An error means that the keeper did not get the request, and the link drops it. If
// the keeper got the request and then ended, sent calls lose, because receive leaves out the request that is being
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

// errUnsent says that the keeper did not get a request.
var errUnsent = errors.New("the keeper takes no requests")

// takeTurn waits until no other message is being sent.
func (l *link) takeTurn(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *link) endTurn() { <-l.turn }

// stallTimeout bounds the wait for a keeper that does not read. A busy machine can stop the keeper for seconds, and the
// keeper's end ends all its commands.
const stallTimeout = time.Minute

// write sends one message. If ctx ends first, write returns its error, and the keeper does not get the message. After
// stallTimeout, write kills the keeper, and all its commands are lost. The caller has the turn.
func (l *link) write(ctx context.Context, text, rights []byte) error {
	limited, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	err := l.conn.SetWriteDeadline(time.Time{})
	if err == nil {
		cut := make(chan struct{})
		stop := context.AfterFunc(limited, func() {
			defer close(cut)
			_ = l.conn.SetWriteDeadline(time.Now()) // fails only on a closed connection, and so does the write
		})
		_, _, err = l.conn.WriteMsgUnix(text, rights, nil) // a socket of this kind sends all of a message, or nothing
		if !stop() {
			<-cut // the next write must come after this deadline
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return ctx.Err()
	case !errors.Is(err, unix.EPIPE) && !errors.Is(err, net.ErrClosed): // otherwise the keeper ends by itself
		_ = l.cmd.Process.Kill() // it may have ended
	}
	return fmt.Errorf("%w: %w", errUnsent, err)
}

// cancel asks the keeper to end the start of a command. It does not wait for a keeper that does not read. If the keeper
// never takes the message, it is killed, and the start ends with it.
func (l *link) cancel(id uint64) {
	text, err := json.Marshal(request{ID: id, Cancel: true})
	if err != nil {
		return
	}
	go func() { // ends when the keeper has read the messages before, or is killed
		ctx := context.Background() // the caller of the command is gone
		if l.takeTurn(ctx) == nil {
			defer l.endTurn()
			_ = l.write(ctx, text, nil) // on an error the keeper has ended, and the start with it
		}
	}()
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
	_ = l.cmd.Wait() // the keeper ends with its connection
	late.Stop()
	l.mu.Lock()
	for id, p := range l.processes {
		if id != l.sending { // sent calls lose for the request being sent
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
