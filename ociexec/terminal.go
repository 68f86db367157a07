package ociexec

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// consoleTimeout bounds the wait for a terminal. The runtime sends the terminal before it ends.
const consoleTimeout = 5 * time.Second

// listenConsole makes the socket to which the runtime sends a command's terminal.
func listenConsole(dir string) (*net.UnixListener, error) {
	console, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, consoleFile), Net: "unix"})
	if err != nil {
		return nil, unsuitable("%w", err)
	}
	return console, nil
}

// receiveTerminal returns the terminal that the runtime has sent to the socket.
func receiveTerminal(console *net.UnixListener) (_ *os.File, err error) {
	if err := console.SetDeadline(time.Now().Add(consoleTimeout)); err != nil {
		return nil, err
	}
	conn, err := console.AcceptUnix()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(consoleTimeout)); err != nil {
		return nil, err
	}
	name, control := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(name, control)
	if err != nil {
		return nil, err
	}
	files, err := receivedFiles(control[:n])
	if err != nil {
		return nil, err
	}
	if len(files) != 1 { // control has room for two, because the kernel aligns it
		closeAll(files)
		return nil, errors.New("the runtime sent no terminal")
	}
	if err := unix.SetNonblock(int(files[0]), true); err != nil {
		return nil, errors.Join(err, unix.Close(int(files[0])))
	}
	return os.NewFile(files[0], "terminal"), nil
}

// Resize sets the size of a terminal in characters.
func Resize(terminal *os.File, width, height uint16) error {
	if terminal == nil {
		return errors.New("the command has no terminal")
	}
	conn, err := terminal.SyscallConn()
	if err != nil {
		return err
	}
	var sizeErr error
	err = conn.Control(func(fd uintptr) {
		sizeErr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height})
	})
	return errors.Join(err, sizeErr)
}
