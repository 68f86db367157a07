package main

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestNoCores(t *testing.T) {
	before, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	testutil.Must(t, err)
	t.Cleanup(func() {
		testutil.Check(t, unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(before), 0, 0, 0))
	})
	testutil.Must(t, noCores())
	got, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	testutil.Assert(t, err == nil && got == 0, "dumpable is %d, %v", got, err)
}
