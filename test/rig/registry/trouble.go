package registry

import (
	"net/http"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// trouble answers one request for an existing image instead of next, or changes the answer of next.
type trouble func(next http.Handler, w http.ResponseWriter, req *http.Request)

// troubles returns the trouble of each repository prefix.
func troubles() map[string]trouble {
	return map[string]trouble{
		rigenv.PrefixSlow: onBlobs(func(w http.ResponseWriter, req *http.Request) http.ResponseWriter {
			return &slowWriter{ResponseWriter: w, req: req, size: rigenv.SlowPiece, pieces: -1}
		}),
		rigenv.PrefixStalled: onBlobs(func(w http.ResponseWriter, req *http.Request) http.ResponseWriter {
			return &slowWriter{ResponseWriter: w, req: req, size: stalledPiece, pieces: 1}
		}),
		rigenv.PrefixCorrupt: onBlobs(func(w http.ResponseWriter, _ *http.Request) http.ResponseWriter {
			return &corruptWriter{ResponseWriter: w}
		}),
		rigenv.PrefixNoBlobs: func(next http.Handler, w http.ResponseWriter, req *http.Request) {
			if isBlob(req) {
				reply(w, http.StatusNotFound, "BLOB_UNKNOWN", "the blob is gone")
				return
			}
			next.ServeHTTP(w, req)
		},
		rigenv.PrefixUnavailable: func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
			reply(w, http.StatusServiceUnavailable, "UNAVAILABLE", "try again later")
		},
		rigenv.PrefixLimited: func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3")
			reply(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "you have pulled too much")
		},
		rigenv.PrefixForbidden: func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
			reply(w, http.StatusForbidden, "DENIED", "not for you")
		},
	}
}

// withTrouble serves /v2/PREFIX/NAME/… as /v2/NAME/… with the prefix's trouble.
func withTrouble(next http.Handler) http.Handler {
	byPrefix := troubles()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		prefix, rest, ok := strings.Cut(strings.TrimPrefix(req.URL.Path, "/v2/"), "/")
		act, known := byPrefix[prefix]
		if !ok || !known {
			next.ServeHTTP(w, req)
			return
		}
		plain := req.Clone(req.Context())
		plain.URL.Path, plain.URL.RawPath = "/v2/"+rest, ""
		act(next, w, plain)
	})
}

func isBlob(req *http.Request) bool { return strings.Contains(req.URL.Path, "/blobs/") }

// onBlobs sends the answers to blob requests through the writer that wrap makes.
func onBlobs(wrap func(http.ResponseWriter, *http.Request) http.ResponseWriter) trouble {
	return func(next http.Handler, w http.ResponseWriter, req *http.Request) {
		if isBlob(req) && req.Method == http.MethodGet {
			w = wrap(w, req)
		}
		next.ServeHTTP(w, req)
	}
}

// stalledPiece is how much of a blob arrives before it stalls.
const stalledPiece = rigenv.SlowPiece

// slowWriter sends a body in pieces of size bytes, with a pause after each. When the number of pieces is used up, it
// waits until the client hangs up. A negative number means no limit.
type slowWriter struct {
	http.ResponseWriter
	req    *http.Request
	size   int
	pieces int
}

// Write sends data in pieces; it fails once the client has gone.
func (s *slowWriter) Write(data []byte) (int, error) {
	written := 0
	for len(data) > 0 {
		if s.pieces == 0 {
			<-s.req.Context().Done()
			return written, s.req.Context().Err()
		}
		s.pieces--
		n, err := s.ResponseWriter.Write(data[:min(s.size, len(data))])
		written += n
		if err != nil {
			return written, err
		}
		data = data[n:]
		if flusher, ok := s.ResponseWriter.(http.Flusher); ok {
			flusher.Flush()
		}
		select {
		case <-s.req.Context().Done():
			return written, s.req.Context().Err()
		case <-time.After(rigenv.SlowPause):
		}
	}
	return written, nil
}

// corruptWriter flips a bit in the first byte of a body.
type corruptWriter struct {
	http.ResponseWriter
	begun bool
}

// Write passes data on, and flips a bit in the first byte of the body.
func (c *corruptWriter) Write(data []byte) (int, error) {
	if !c.begun && len(data) > 0 {
		c.begun = true
		data = append([]byte{data[0] ^ 1}, data[1:]...)
	}
	return c.ResponseWriter.Write(data)
}
