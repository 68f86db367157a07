package results

import (
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestFailures(t *testing.T) {
	long := strings.Repeat("ä", 200)
	tests := []struct{ name, output, want string }{
		{"no message", "=== RUN TestA\npanic: oops\n", ""},
		{"a message", "=== RUN TestA\n    a_test.go:7: LEAKED: got 1\n--- FAIL: TestA\n",
			"    a_test.go:7: LEAKED: got 1\n--- FAIL: TestA\n"},
		{"a server's log", "    server.go:9: the log\n        1\n        2\n        3\n    a_test.go:7: late\n",
			"    server.go:9: the log\n        1\n        2\n    a_test.go:7: late\n"},
		{"a long line", "    a_test.go:7: " + long + "\n", "    a_test.go:7: " + strings.Repeat("ä", 111) + "…\n"},
		{"many messages", strings.Repeat("    a_test.go:7: late\n", 20), strings.Repeat("    a_test.go:7: late\n", 12)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			testutil.Equal(t, Test{Output: test.output}.Failures(), test.want, "failures")
		})
	}
}
