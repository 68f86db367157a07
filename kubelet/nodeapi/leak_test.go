package nodeapi

import (
	"bytes"
	"net/http"
	"os"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// goroutines counts all goroutines. Tests of this package run one after the other.
func goroutines() int { return pprof.Lookup("goroutine").Count() }

// before counts the goroutines while the API is idle.
func (a *api) before() int {
	a.t.Helper()
	code, _ := a.get("/healthz")
	testutil.Require(a.t, code == http.StatusOK, "healthz: %d", code)
	a.client.CloseIdleConnections()
	count := goroutines()
	for still := 0; still < 10; still++ {
		time.Sleep(10 * time.Millisecond)
		if now := goroutines(); now != count {
			count, still = now, 0
		}
	}
	return count
}

// settles waits until there are no more goroutines than before.
func settles(t testing.TB, before int) {
	t.Helper()
	for deadline := time.Now().Add(patience); goroutines() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			var stacks bytes.Buffer
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // writing to memory cannot fail
			t.Fatalf("%d goroutines are left of %d before:\n%s", goroutines(), before, stacks.String())
		}
	}
}

func appendTo(t testing.TB, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	testutil.Must(t, err)
	defer file.Close()
	_, err = file.WriteString(text)
	testutil.Must(t, err)
}
