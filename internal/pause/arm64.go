package pause

import "fmt"

// System call numbers of arm64 (include/uapi/asm-generic/unistd.h).
const (
	arm64ExitGroup      = 94
	arm64RtSigaction    = 134
	arm64RtSigprocmask  = 135
	arm64RtSigtimedwait = 137
)

// arm64 writes A64 instructions, each a 32-bit word. A system call takes its number in x8 and its arguments in x0 to
// x3, and leaves its result in x0. Writing a w register clears the upper half of its x register.
type arm64 struct{ *assembler }

// emitARM64 appends the program's code; the package comment gives the reasons.
func emitARM64(asm *assembler, d data) {
	a := arm64{asm}
	// rt_sigprocmask(SIG_BLOCK, &set, NULL, 8), before anything else: a signal that comes from here on is not lost.
	a.movz(0, sigBlock)
	a.adr(1, d.set, "set")
	a.movz(2, 0)
	a.movz(3, sigsetSize)
	a.syscall(arm64RtSigprocmask, "rt_sigprocmask")
	// rt_sigaction(SIGCHLD, &action, NULL, 8). The kernel keeps x1 to x7.
	a.movz(0, sigchld)
	a.adr(1, d.action, "action")
	a.syscall(arm64RtSigaction, "rt_sigaction")
	// wait: rt_sigtimedwait(&set, NULL, NULL, 8)
	wait := a.here()
	a.adr(0, d.set, "set")
	a.movz(1, 0)
	a.syscall(arm64RtSigtimedwait, "rt_sigtimedwait")
	// if (w0 == -EINTR) goto wait
	a.word("cmn w0, #4", 0x3100001f|eintr<<10) // ADDS WZR, W0, #imm12
	a.beq(wait, "wait")
	// exit_group(w0 < 0)
	a.word("lsr w0, w0, #31", 0x531f7c00) // UBFM W0, W0, #31, #31
	a.syscall(arm64ExitGroup, "exit_group")
}

// word appends one instruction.
func (a arm64) word(text string, instruction uint32) {
	a.emit(text, le32(instruction))
}

// movz: MOVZ Wd, #imm16.
func (a arm64) movz(register, value uint32) {
	a.word(fmt.Sprintf("mov w%d, #%d", register, value), 0x52800000|value<<5|register)
}

// adr: ADR Xd, label. The signed distance in bytes has 21 bits. Its two lowest bits are bits 29 and 30 of the
// instruction.
func (a arm64) adr(register uint32, target uint64, label string) {
	distance := uint32(target - a.here())
	a.word(fmt.Sprintf("adr x%d, %#x  // %s", register, target, label),
		0x10000000|(distance&3)<<29|(distance>>2&0x7ffff)<<5|register)
}

// syscall: MOVZ W8, #number; SVC #0.
func (a arm64) syscall(number uint32, name string) {
	a.movz(8, number)
	a.word("svc #0  // "+name, 0xd4000001)
}

// beq: B.EQ label. The signed distance in instructions has 19 bits.
func (a arm64) beq(target uint64, label string) {
	distance := uint32(target-a.here()) >> 2
	a.word(fmt.Sprintf("b.eq %#x  // %s", target, label), 0x54000000|(distance&0x7ffff)<<5)
}
