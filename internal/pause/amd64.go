package pause

import "fmt"

// System call numbers of amd64 (arch/x86/entry/syscalls/syscall_64.tbl).
const (
	amd64RtSigaction    = 13
	amd64RtSigprocmask  = 14
	amd64RtSigtimedwait = 128
	amd64ExitGroup      = 231
)

// amd64 writes instructions of the Intel 64 and AMD64 architecture. A system call takes its number in eax and its
// arguments in edi, esi, edx, r10d, and leaves its result in eax. Writing a 32-bit register clears the upper half.
type amd64 struct{ *assembler }

// emitAMD64 appends the program's code; the package comment gives the reasons.
func emitAMD64(asm *assembler, d data) {
	a := amd64{asm}
	// rt_sigprocmask(SIG_BLOCK, &set, NULL, 8), before anything else: a signal that comes from here on is not lost.
	a.movImm(0xbf, "edi", sigBlock)
	a.lea(0x35, "rsi", d.set, "set")
	a.emit("xor edx, edx", []byte{0x31, 0xd2})
	a.emit("mov r10d, 8", []byte{0x41, 0xba}, le32(sigsetSize))
	a.syscall(amd64RtSigprocmask, "rt_sigprocmask")
	// rt_sigaction(SIGCHLD, &action, NULL, 8). The kernel keeps rdx and r10.
	a.movImm(0xbf, "edi", sigchld)
	a.lea(0x35, "rsi", d.action, "action")
	a.syscall(amd64RtSigaction, "rt_sigaction")
	// wait: rt_sigtimedwait(&set, NULL, NULL, 8)
	wait := a.here()
	a.lea(0x3d, "rdi", d.set, "set")
	a.emit("xor esi, esi", []byte{0x31, 0xf6})
	a.syscall(amd64RtSigtimedwait, "rt_sigtimedwait")
	// if (eax == -EINTR) goto wait
	a.emit("cmp eax, -4", []byte{0x83, 0xf8, 0x100 - eintr})
	a.je(wait, "wait")
	// exit_group(eax < 0)
	a.emit("mov edi, eax", []byte{0x89, 0xc7})
	a.emit("shr edi, 31", []byte{0xc1, 0xef, 31})
	a.syscall(amd64ExitGroup, "exit_group")
}

// movImm: opcode b8+r id, MOV r32, imm32.
func (a amd64) movImm(opcode byte, register string, value uint32) {
	a.emit(fmt.Sprintf("mov %s, %d", register, value), []byte{opcode}, le32(value))
}

// lea: REX.W 8d /r, LEA r64, [rip+disp32]. modrm names the register.
func (a amd64) lea(modrm byte, register string, target uint64, label string) {
	const size = 7
	disp := int64(target) - int64(a.here()+size)
	a.emit(fmt.Sprintf("lea %s, [rip%+d]  // %s", register, disp, label), []byte{0x48, 0x8d, modrm}, le32(uint32(disp)))
}

// syscall: MOV eax, imm32; 0f 05, SYSCALL.
func (a amd64) syscall(number uint32, name string) {
	a.movImm(0xb8, "eax", number)
	a.emit("syscall  // "+name, []byte{0x0f, 0x05})
}

// je: 74 cb, JE rel8.
func (a amd64) je(target uint64, label string) {
	const size = 2
	disp := int64(target) - int64(a.here()+size)
	a.emit(fmt.Sprintf("je %#x  // %s", target, label), []byte{0x74, byte(disp)})
}
