package adapter

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A pod without an address does not answer, although the machine itself refuses connections to port 1.
func TestAnswers(t *testing.T) {
	testutil.Check(t, Answers("127.0.0.1"), "an address that refuses connections")
	for _, ip := range []string{"", "localhost"} {
		testutil.Assert(t, Answers(ip) != nil, "%q is taken for a pod's address", ip)
	}
}
