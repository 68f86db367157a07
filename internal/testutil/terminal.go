package testutil

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Terminal opens a pseudo-terminal, see pts(4). A program uses screen as its terminal. The test writes the program's
// input to keyboard, and reads the program's output from it. Both files are closed when the test ends.
func Terminal(t testing.TB) (keyboard, screen *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	Must(t, err)
	t.Cleanup(func() { _ = keyboard.Close() })
	Must(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	Must(t, err)
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	Must(t, err)
	t.Cleanup(func() { _ = screen.Close() })
	return keyboard, screen
}

// ResizeTerminal changes the size of a terminal. The kernel sends SIGWINCH to the program on it.
func ResizeTerminal(t testing.TB, terminal *os.File, columns, rows uint16) {
	t.Helper()
	Must(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}))
}
