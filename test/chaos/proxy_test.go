package chaos

import (
	"bufio"
	"context"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// faultyEngine is a proxy in front of an engine. Between begin and end it spoils some answers, which a seed chooses.
type faultyEngine struct {
	mu     sync.Mutex
	random *rand.Rand
	faulty bool
	calm   chan struct{} // closed while the answers are not spoiled
	made   map[string]int
}

// newFaultyEngine starts a proxy in front of the engine of env, and changes env to use the proxy.
func newFaultyEngine(t *testing.T, env *rigenv.Env, seed uint64) *faultyEngine {
	t.Helper()
	f := &faultyEngine{random: rand.New(rand.NewPCG(seed, 0)), made: map[string]int{}, calm: make(chan struct{})}
	close(f.calm)
	env.DockerHost = engine.Proxy(t, *env, func(proxy *httputil.ReverseProxy) http.Handler {
		proxy.ModifyResponse = f.answered
		// While the engine is down, the proxy breaks connections off, as a dead engine does.
		proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
		proxy.ErrorLog = log.New(io.Discard, "", 0) // the proxy would log each answer that is cut
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, proxy) })
	})
	return f
}

// begin makes the proxy spoil answers, until end is called.
func (f *faultyEngine) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faulty, f.calm = true, make(chan struct{})
}

func (f *faultyEngine) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faulty = false
	close(f.calm)
}

// faults returns the number of faults so far.
func (f *faultyEngine) faults() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return sumOf(f.made)
}

// draw chooses the fault of a request, "" for none.
func (f *faultyEngine) draw(faults ...string) (fault string, wait time.Duration, calm <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.faulty || f.random.IntN(100) >= 8 {
		return "", 0, nil
	}
	fault = faults[f.random.IntN(len(faults))]
	f.made[fault]++
	return fault, time.Duration(f.random.Int64N(int64(2 * time.Second))), f.calm
}

func (f *faultyEngine) serve(w http.ResponseWriter, r *http.Request, proxy http.Handler) {
	if strings.HasSuffix(r.URL.Path, "/events") {
		proxy.ServeHTTP(w, r)
		return
	}
	switch fault, wait, calm := f.draw("500", "cut before", "slow", "hang"); fault {
	case "500":
		http.Error(w, `{"message":"something went wrong"}`, http.StatusInternalServerError)
		return
	case "cut before":
		panic(http.ErrAbortHandler)
	case "slow":
		pause(r.Context(), wait, nil)
	case "hang":
		pause(r.Context(), 2*wait, calm) // at most four seconds: a list that hangs holds up everything
	}
	proxy.ServeHTTP(w, r)
}

func pause(ctx context.Context, wait time.Duration, calm <-chan struct{}) {
	select {
	case <-time.After(wait):
	case <-calm:
	case <-ctx.Done():
	}
}

// answered spoils the answer to a request that the engine has carried out.
func (f *faultyEngine) answered(response *http.Response) error {
	if strings.HasSuffix(response.Request.URL.Path, "/events") {
		response.Body = f.spoilEvents(response.Body)
		return nil
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	switch fault, _, _ := f.draw("cut after", "500 after"); fault {
	case "cut after":
		response.Body = &cutBody{response.Body}
	case "500 after":
		_ = response.Body.Close()
		response.StatusCode, response.Status = http.StatusInternalServerError, "500 Internal Server Error"
		response.Header = http.Header{"Content-Type": {"application/json"}}
		response.Body, response.ContentLength = io.NopCloser(
			strings.NewReader(`{"message":"something went wrong"}`)), -1
	}
	return nil
}

// cutBody is the body of an answer that breaks off in the middle.
type cutBody struct{ io.ReadCloser }

func (c *cutBody) Read(p []byte) (int, error) {
	n, _ := c.ReadCloser.Read(p)
	return n / 2, io.ErrUnexpectedEOF
}

// spoilEvents drops, repeats or delays events, or ends their stream.
func (f *faultyEngine) spoilEvents(events io.ReadCloser) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		defer events.Close()
		lines := bufio.NewReader(events)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				_ = in.CloseWithError(err)
				return
			}
			switch fault, wait, _ := f.draw("event lost", "event twice", "event late", "events cut"); fault {
			case "event lost":
				continue
			case "event twice":
				line = append(line, line...)
			case "event late":
				time.Sleep(wait)
			case "events cut":
				_ = in.CloseWithError(io.ErrUnexpectedEOF)
				return
			}
			if _, err := in.Write(line); err != nil {
				return
			}
		}
	}()
	return out
}
