// Package linger ends a connection so that its peer gets all that was sent.
package linger

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Grace is the usual time that a peer has to hang up when its kernel has the end of the data.
const Grace = 5 * time.Second

// Wait ends conn's writing direction, and then waits until the peer hangs up or conn is closed. It discards further
// input, because unread input would let the kernel discard the output. After each grace period Wait checks how many
// bytes the peer's kernel lacks. It also returns if that number is 0, or has not changed for idle. An earlier return
// could lose output, because input after the close, such as a ping, lets the kernel discard the rest. The caller closes
// conn afterwards. Other reads of conn may fail meanwhile, because Wait sets deadlines.
func Wait(conn *net.TCPConn, grace, idle time.Duration) {
	if conn.CloseWrite() != nil {
		return
	}
	for rest, since := 0, time.Now(); ; {
		if conn.SetReadDeadline(time.Now().Add(grace)) != nil {
			return
		}
		if _, err := io.Copy(io.Discard, conn); !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		now := undelivered(conn)
		if now != rest {
			rest, since = now, time.Now()
		}
		if rest == 0 || time.Since(since) >= idle {
			return
		}
	}
}

// undelivered returns the number of bytes that the peer's kernel does not have yet. It returns 0 if the number is
// unknown.
func undelivered(conn *net.TCPConn) (bytes int) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { // fails if the connection is closed
		if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			bytes = n
		}
	})
	return bytes
}
