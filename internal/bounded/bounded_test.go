package bounded

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestReadAll(t *testing.T) {
	broken := iotest.ErrReader(io.ErrUnexpectedEOF)
	for name, test := range map[string]struct {
		from          io.Reader
		content, fail string
	}{
		"empty":          {strings.NewReader(""), "", ""},
		"at the limit":   {strings.NewReader("abc"), "abc", ""},
		"above it":       {strings.NewReader("abcd"), "", "/etc/x has more than 3 bytes"},
		"endless":        {io.MultiReader(strings.NewReader("abcd"), broken), "", "/etc/x has more than 3 bytes"},
		"a failed read":  {broken, "", "unexpected EOF"},
		"a partial read": {io.MultiReader(strings.NewReader("ab"), broken), "ab", "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := ReadAll(test.from, "/etc/x", 3)
			testutil.Equal(t, string(content), test.content, "content")
			testutil.Assert(t, (err == nil) == (test.fail == "") && (err == nil || err.Error() == test.fail), "%v", err)
		})
	}
}
