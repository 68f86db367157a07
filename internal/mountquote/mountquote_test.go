package mountquote

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestUnquote(t *testing.T) {
	for quoted, want := range map[string]string{
		"": "", "/plain": "/plain", `a\040b\054c`: "a b,c", `a\134:b`: `a\:b`, `\040`: " ",
		`a\04`: `a\04`, `a\`: `a\`, `a\08x`: `a\08x`, `a\777`: `a\777`, `\\040`: `\ `,
	} {
		testutil.Equal(t, Unquote(quoted), want, "%q", quoted)
	}
}
