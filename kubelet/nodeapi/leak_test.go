package nodeapi

import (
	"net/http"
	goruntime "runtime"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// idle waits until the API is idle. The returned check waits until there are no more goroutines than at that time.
// Tests of this package run one after the other.
func (a *api) idle() (settled func()) {
	a.t.Helper()
	code, _ := a.get("/healthz")
	testutil.Require(a.t, code == http.StatusOK, "healthz: %d", code)
	a.client.CloseIdleConnections()
	count := goruntime.NumGoroutine()
	for still := 0; still < 10; still++ {
		time.Sleep(10 * time.Millisecond)
		if now := goruntime.NumGoroutine(); now != count {
			count, still = now, 0
		}
	}
	return testutil.NoMoreGoroutines(a.t)
}
