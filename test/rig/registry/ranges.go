package registry

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"time"
)

// withRanges answers requests for parts of blobs, which engines with the containerd image store make. The registry's
// own handler rejects a range without an end.
func withRanges(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !isBlob(req) || req.Method != http.MethodGet || req.Header.Get("Range") == "" {
			next.ServeHTTP(w, req)
			return
		}
		whole := req.Clone(req.Context())
		whole.Header.Del("Range")
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, whole)
		if answer.Code == http.StatusOK {
			content := bytes.NewReader(answer.Body.Bytes())
			answer = httptest.NewRecorder()
			http.ServeContent(answer, req, "", time.Time{}, content)
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		// The body is written at once, because a slowWriter itself pauses between pieces. Write fails when the client
		// has gone.
		_, _ = w.Write(answer.Body.Bytes())
	})
}
