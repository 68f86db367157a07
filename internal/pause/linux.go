package pause

// Constants of the Linux system call interface that are the same on every
// architecture the program is made for (include/uapi/asm-generic).
const (
	sigint  = 2
	sigterm = 15
	sigchld = 17

	sigBlock = 0 // SIG_BLOCK, an operation of rt_sigprocmask
	sigIgn   = 1 // SIG_IGN, a handler of rt_sigaction
	eintr    = 4

	// sigsetSize is the size in bytes of the kernel's signal set.
	sigsetSize = 8
)

// data holds the addresses of the constants that the system calls read.
type data struct {
	// set is the signal set {SIGINT, SIGTERM}.
	set uint64
	// action is the kernel's struct sigaction that ignores a signal: handler,
	// flags, restorer, mask. amd64 and arm64 lay it out alike.
	action uint64
}

// emitData appends the program's constants.
func emitData(a *assembler) data {
	var d data
	d.set = a.here()
	a.quad(1<<(sigint-1)|1<<(sigterm-1), "set: SIGINT, SIGTERM")
	d.action = a.here()
	a.quad(sigIgn, "action: sa_handler = SIG_IGN")
	a.quad(0, "action: sa_flags")
	a.quad(0, "action: sa_restorer")
	a.quad(0, "action: sa_mask")
	return d
}
