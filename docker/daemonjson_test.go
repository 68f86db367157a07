package docker

import (
	"net/http"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestCheckLogOptions(t *testing.T) {
	for name, c := range map[string]struct{ message, want string }{
		"no option":       {"unknown log opt 'criadapter-asks' for json-file log driver", ""},
		"a wrong option":  {"max-buffer-size needs the mode non-blocking", "log-opts of the engine's daemon.json"},
		"an endless text": {strings.Repeat("x", maxAnswer) + maxBufferSize, "has more than 65536 bytes"},
	} {
		f := newFakeServer(t)
		f.handle("POST /containers/create", answer(http.StatusBadRequest, c.message))
		err := checkLogOptions(t.Context(), "unix://"+f.socket, "json-file", "1.41")
		testutil.Assert(t, (err == nil) == (c.want == "") && (err == nil || strings.Contains(err.Error(), c.want)),
			"%s: %v", name, err)
	}
}
