package streaming

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/linger"
)

// lookPeriod is the time between two checks of a session's connection.
const lookPeriod = 2 * time.Second

// listener accepts at most limit connections at a time. Each of them notices when its client is gone. The listener
// closes a connection beyond the limit at once. Any process of the node can open connections, and the whole server
// shares the descriptors.
type listener struct {
	*net.TCPListener
	// idle and linger become the idle and the grace of each client.
	idle, linger time.Duration
	limit        int64
	open         atomic.Int64
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.limit {
			closed := sync.OnceFunc(func() { l.open.Add(-1) })
			return &client{TCPConn: conn, idle: l.idle, grace: l.linger, closed: closed}, nil
		}
		l.open.Add(-1)
		_ = conn.Close()
	}
}

// client is the connection of a client.
type client struct {
	*net.TCPConn
	// closed releases the connection's place in the listener.
	closed func()
	// idle bounds a wait for the client to read.
	idle time.Duration
	// grace is linger.Grace, and less in tests.
	grace time.Duration
	// ctx ends when the client is gone or the server closes.
	ctx  context.Context
	gone context.CancelFunc
	// upgraded says that the connection has left HTTP for a session's streams.
	upgraded atomic.Bool
	// lingers runs once, at the first Close of a session.
	lingers sync.Once
	// mu is held to set ending or a deadline.
	mu sync.Mutex
	// ending says that the server has written everything and waits for the client to hang up.
	ending atomic.Bool
	// reading counts the reads under way.
	reading atomic.Int32
	// writing is the start of the write under way, nil without one.
	writing atomic.Pointer[time.Time]
}

type clientKey struct{}

// withClient returns the context of the requests on a connection. It is an http.Server's ConnContext, which runs before
// the first read.
func withClient(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	c, ok := conn.(*client)
	if !ok {
		return ctx
	}
	c.ctx, c.gone = context.WithCancel(ctx)
	return context.WithValue(c.ctx, clientKey{}, c)
}

func clientOf(ctx context.Context) (*client, bool) {
	c, ok := ctx.Value(clientKey{}).(*client)
	return c, ok
}

// Read notices the end of the connection. A timeout does not count as the end, because net/http interrupts reads with
// deadlines.
func (c *client) Read(p []byte) (int, error) {
	c.reading.Add(1)
	defer c.reading.Add(-1)
	n, err := c.TCPConn.Read(p)
	var timeout net.Error
	if err != nil && !(errors.As(err, &timeout) && timeout.Timeout()) {
		c.leave()
	}
	return n, err
}

// Write records its start. There is one write at a time.
func (c *client) Write(p []byte) (int, error) {
	now := time.Now()
	c.writing.Store(&now)
	defer c.writing.Store(nil)
	return c.TCPConn.Write(p)
}

// stuck reports whether the client has not read for too long. SPDY's own idle timeout cannot help, because it waits for
// the write, too.
func (c *client) stuck() bool {
	began := c.writing.Load()
	return began != nil && time.Since(*began) >= c.idle
}

// SetDeadline implements net.Conn. The WebSocket's library sets a deadline for each message, also after the session's
// end. The deadlines of linger.Wait must stay.
func (c *client) SetDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.Load() {
		return nil
	}
	return c.TCPConn.SetDeadline(at)
}

// Close ends the connection. For a session, it first lets the client read everything. The libraries call it more than
// once, for example when their own read has ended. A further call waits for the end of the first one.
func (c *client) Close() error {
	if c.upgraded.Load() {
		c.lingers.Do(func() {
			c.mu.Lock()
			c.ending.Store(true)
			c.mu.Unlock()
			linger.Wait(c.TCPConn, c.grace, c.idle)
		})
	}
	return c.hangUp()
}

// hangUp closes the connection at once and ends all waits for it.
func (c *client) hangUp() error {
	c.leave()
	defer c.closed()
	return c.TCPConn.Close()
}

func (c *client) leave() {
	if c.gone != nil {
		c.gone()
	}
}

// guard closes the connection when its context ends, or its client is gone or stuck. release ends the guard and waits
// for it.
func (c *client) guard() (release func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		look := time.NewTicker(min(lookPeriod, c.idle))
		defer look.Stop()
		for {
			select {
			case <-stop:
				return
			case <-c.ctx.Done():
				_ = c.hangUp()
				return
			case <-look.C:
				// The order of the two checks matters: Close sets ending before it lingers, and present is false while
				// it lingers.
				if c.stuck() || !c.present() && !c.ending.Load() {
					_ = c.hangUp()
					return
				}
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}

// present reports whether the client is still there, as far as the kernel shows. A client that has closed its own
// direction counts as gone, because clients do that only when they leave.
func (c *client) present() bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	open := false
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		open = err == nil && info.State == unix.BPF_TCP_ESTABLISHED
	})
	if err != nil || !open {
		return false
	}
	// While the server does not read, unread input fills the buffers, and the client's end of the connection waits
	// behind it. The kernel knows the state of a client on this machine, such as the kubelet. The connection of a
	// client on another machine ends some minutes later, when the client's kernel gives up.
	if c.reading.Load() > 0 {
		return true
	}
	peer, err := netlink.SocketGet(c.RemoteAddr(), c.LocalAddr())
	return err != nil || peer.State == unix.BPF_TCP_ESTABLISHED
}
