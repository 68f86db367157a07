package pause

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

var update = flag.Bool("update", false, "write the listings in testdata anew")

// architectures maps each supported architecture to its ELF machine.
var architectures = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

func mustELF(t *testing.T, arch string) []byte {
	t.Helper()
	file, err := executable(arch)
	testutil.Must(t, err)
	return file
}

// The listings make each byte of the program reviewable: any change of the program changes a listing.
func TestBytesAreTheReviewedOnes(t *testing.T) {
	for arch := range architectures {
		t.Run(arch, func(t *testing.T) {
			asm, err := assemble(arch)
			testutil.Must(t, err)
			path := filepath.Join("testdata", arch+".lst")
			testutil.Golden(t, path, asm.listing(), *update)
			got := bytesOf(t, testutil.ReadFile(t, path))
			testutil.Assert(t, bytes.Equal(got, mustELF(t, arch)),
				"the listing's %d bytes are not the file's", len(got))
		})
	}
}

// bytesOf reads the bytes out of a listing.
func bytesOf(t *testing.T, listing string) []byte {
	t.Helper()
	var all []byte
	for line := range strings.Lines(listing) {
		fields := strings.Fields(line)
		testutil.Require(t, len(fields) >= 3, "not a line of a listing: %q", line)
		all = append(all, unhex(t, fields[1])...)
	}
	return all
}

func TestELFIsWellFormed(t *testing.T) {
	for arch, machine := range architectures {
		t.Run(arch, func(t *testing.T) {
			content := mustELF(t, arch)
			testutil.Assert(t, len(content) <= 512, "the file has %d bytes, a few hundred are enough", len(content))
			f, err := elf.NewFile(bytes.NewReader(content))
			testutil.Must(t, err)
			testutil.Assert(t, f.Class == elf.ELFCLASS64 && f.Data == elf.ELFDATA2LSB && f.Type == elf.ET_EXEC &&
				f.Machine == machine && len(f.Sections) == 0,
				"the header is %+v with %d sections", f.FileHeader, len(f.Sections))
			testutil.Require(t, len(f.Progs) == 2, "%d program headers, want 2", len(f.Progs))
			requireLoadable(t, f, uint64(len(content)))
			stack := f.Progs[1]
			testutil.Assert(t, stack.Type == elf.PT_GNU_STACK && stack.Flags&elf.PF_X == 0,
				"the second program header is %+v, want a stack that is not executable", stack.ProgHeader)
		})
	}
}

// requireLoadable checks the segment that is mapped.
func requireLoadable(t *testing.T, f *elf.File, size uint64) {
	t.Helper()
	load := f.Progs[0]
	testutil.Assert(t, load.Type == elf.PT_LOAD && load.Flags == elf.PF_R|elf.PF_X,
		"the first program header is %+v, want a segment to read and execute", load.ProgHeader)
	testutil.Assert(t, load.Off == 0 && load.Filesz == size && load.Memsz == size,
		"the segment is %+v, want the whole file of %d bytes", load.ProgHeader, size)
	testutil.Assert(t, load.Align == 1<<16 && load.Vaddr%load.Align == load.Off%load.Align,
		"the segment %+v cannot be mapped with pages of 64 KiB", load.ProgHeader)
	testutil.Assert(t, f.Entry >= load.Vaddr+elfHeaderSize && f.Entry < load.Vaddr+load.Filesz && f.Entry%4 == 0,
		"the entry point %#x is not an instruction of the segment", f.Entry)
}

func TestOtherArchitecturesAreRefused(t *testing.T) {
	for _, arch := range []string{"", "386", "arm", "AMD64", "riscv64", "s390x"} {
		_, elfErr := executable(arch)
		_, archiveErr := Archive(arch)
		_, configErr := ConfigDigest(arch)
		_, manifestErr := ManifestDigest(arch)
		for call, err := range map[string]error{"ELF": elfErr, "Archive": archiveErr, "ConfigDigest": configErr,
			"ManifestDigest": manifestErr} {
			if !errdefs.IsNotImplemented(err) || !strings.Contains(err.Error(), "--pod-infra-container-image") {
				t.Errorf("%s(%q) returned %v, want NotImplemented that names the flag to use", call, arch, err)
			}
		}
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	testutil.Must(t, err)
	return b
}

// listing returns the program for a human reader: address, bytes in hexadecimal in the order of the file, meaning.
func (a *assembler) listing() string {
	var b strings.Builder
	for _, l := range a.lines {
		fmt.Fprintf(&b, "%06x  %-32x  %s\n", l.addr, l.bytes, l.text)
	}
	return b.String()
}
