package nodeapi

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestLogLinesNameTheRequest: a handler's log line names the request and the component.
func TestLogLinesNameTheRequest(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	var lines bytes.Buffer
	logger := logrus.New()
	logger.Out, logger.Formatter = &lines, &logrus.TextFormatter{DisableTimestamp: true}
	stop := testutil.Background(t, func(ctx context.Context) error {
		ctx = log.WithLogger(ctx, logrus.NewEntry(logger))
		return serve(ctx, listener, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			log.G(r.Context()).WithError(errors.New("no runtime")).Warn("cannot get stats")
		}))
	})
	response, err := http.Get("http://" + listener.Addr().String() + "/metrics/resource?secret=1")
	testutil.Must(t, err)
	response.Body.Close()
	stop()
	got, want := strings.TrimSpace(
		lines.String()),
		`level=warning msg="cannot get stats" component=nodeapi error="no runtime" method=GET uri=/metrics/resource`
	testutil.Assert(t, got == want, "got  %s\nwant %s", got, want)
}
