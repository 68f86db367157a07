package pause

import (
	"debug/elf"
	"fmt"

	"github.com/containerd/errdefs"
)

const (
	// loadAddress is the address of the mapped file, headers included. Any page boundary above vm.mmap_min_addr will
	// do.
	loadAddress = 0x400000
	// pageSize is the largest page size of these architectures (arm64: 64 KiB). The kernel requires a segment that is
	// aligned to its page size.
	pageSize = 0x10000

	elfHeaderSize     = 64
	programHeaderSize = 56
	programHeaders    = 2
)

// executable returns the sandbox program as a static executable for an architecture as Go and Docker name it: "amd64"
// or "arm64". The same architecture always gives the same bytes. For another one it returns errdefs.ErrNotImplemented.
func executable(arch string) ([]byte, error) {
	asm, err := assemble(arch)
	if err != nil {
		return nil, err
	}
	return asm.bytes, nil
}

// assemble writes the whole file. The kernel maps the file as it is, so an address is loadAddress plus the offset in
// the file.
func assemble(arch string) (*assembler, error) {
	var machine elf.Machine
	var code func(*assembler, data)
	switch arch {
	case "amd64":
		machine, code = elf.EM_X86_64, emitAMD64
	case "arm64":
		machine, code = elf.EM_AARCH64, emitARM64
	default:
		return nil, fmt.Errorf(
			"there is no built-in sandbox image for the architecture %q: name an image to pull with "+
				"--pod-infra-container-image: %w",
			arch, errdefs.ErrNotImplemented)
	}
	// Data and code first, to know the entry point and the size for the headers.
	body := &assembler{base: loadAddress + elfHeaderSize + programHeaders*programHeaderSize}
	d := emitData(body)
	entry := body.here()
	code(body, d)

	file := &assembler{base: loadAddress}
	emitHeaders(file, machine, entry, body.here()-loadAddress)
	file.bytes = append(file.bytes, body.bytes...)
	file.lines = append(file.lines, body.lines...)
	return file, nil
}

// emitHeaders appends the ELF header and the program headers of a file of size bytes.
func emitHeaders(a *assembler, machine elf.Machine, entry, size uint64) {
	a.emit("e_ident: magic, 64-bit, little-endian, version 1",
		[]byte(elf.ELFMAG), []byte{byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT), 0}, le64(0))
	a.emit("e_type ET_EXEC, e_machine "+machine.String(), le16(uint16(elf.ET_EXEC)), le16(uint16(machine)))
	a.emit("e_version", le32(uint32(elf.EV_CURRENT)))
	a.emit("e_entry", le64(entry))
	a.emit("e_phoff", le64(elfHeaderSize))
	a.emit("e_shoff: no sections", le64(0))
	a.emit("e_flags, e_ehsize", le32(0), le16(elfHeaderSize))
	a.emit("e_phentsize, e_phnum", le16(programHeaderSize), le16(programHeaders))
	a.emit("e_shentsize, e_shnum, e_shstrndx", le16(0), le16(0), le16(0))

	a.emit("p_type PT_LOAD, p_flags R+X", le32(uint32(elf.PT_LOAD)), le32(uint32(elf.PF_R|elf.PF_X)))
	a.emit("p_offset", le64(0))
	a.emit("p_vaddr", le64(loadAddress))
	a.emit("p_paddr", le64(loadAddress))
	a.emit("p_filesz", le64(size))
	a.emit("p_memsz", le64(size))
	a.emit("p_align", le64(pageSize))

	// Without this header a kernel may make the stack executable.
	a.emit("p_type PT_GNU_STACK, p_flags R+W", le32(uint32(elf.PT_GNU_STACK)), le32(uint32(elf.PF_R|elf.PF_W)))
	a.emit("p_offset, p_vaddr", le64(0), le64(0))
	a.emit("p_paddr, p_filesz", le64(0), le64(0))
	a.emit("p_memsz", le64(0))
	a.emit("p_align", le64(16))
}
