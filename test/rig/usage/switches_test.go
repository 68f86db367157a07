package usage

import (
	"os"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestSwitchesCountsWaits: each sleep is a switch of a thread.
func TestSwitchesCountsWaits(t *testing.T) {
	self := []int{os.Getpid()}
	before, err := Switches(self)
	testutil.Must(t, err)
	for range 10 {
		time.Sleep(2 * time.Millisecond)
	}
	after, err := Switches(self)
	testutil.Assert(t, err == nil && after-before >= 10, "ten sleeps are %d switches, %v", after-before, err)
	_, err = Switches([]int{1 << 30})
	testutil.Assert(t, err != nil, "a process that does not exist has switches")
}
