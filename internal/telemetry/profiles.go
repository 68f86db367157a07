package telemetry

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"time"
)

// Profiles of the Go runtime, at the paths of `go tool pprof` and `go tool trace`. The standard library's handlers
// (net/http/pprof) use templates, which find methods by name. With templates the linker must keep every method of every
// type. That adds 4 MB to the program, most of it resident.

const (
	// cpuProfileTime and traceTime are the default lengths of a recording without ?seconds, as with the standard
	// handlers.
	cpuProfileTime = 30 * time.Second
	traceTime      = time.Second
	// maxRecording bounds ?seconds.
	maxRecording = 10 * time.Minute
)

// addProfiles adds the profiles below /debug/pprof/.
func addProfiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/{$}", listProfiles)
	mux.HandleFunc("GET /debug/pprof/{name}", writeProfile)
	mux.HandleFunc("GET /debug/pprof/cmdline", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Join(os.Args, "\x00"))
	})
	mux.HandleFunc("GET /debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) {
		record(w, r, cpuProfileTime, pprof.StartCPUProfile, pprof.StopCPUProfile)
	})
	mux.HandleFunc("GET /debug/pprof/trace", func(w http.ResponseWriter, r *http.Request) {
		record(w, r, traceTime, trace.Start, trace.Stop)
	})
}

func listProfiles(w http.ResponseWriter, _ *http.Request) {
	for _, profile := range pprof.Profiles() {
		fmt.Fprintf(w, "%s\t%d\n", profile.Name(), profile.Count())
	}
	fmt.Fprintln(w, "profile\ttrace\tcmdline")
}

// writeProfile answers with one profile: ?debug=1 for text, ?gc=1 to collect garbage first.
func writeProfile(w http.ResponseWriter, r *http.Request) {
	profile := pprof.Lookup(r.PathValue("name"))
	if profile == nil {
		http.NotFound(w, r)
		return
	}
	if r.FormValue("gc") != "" {
		runtime.GC()
	}
	debug, _ := strconv.Atoi(r.FormValue("debug")) // an invalid value is 0, the binary form
	if debug == 0 {
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	_ = profile.WriteTo(w, debug) // fails if the client is gone
}

// record answers with the recording from start to stop.
func record(w http.ResponseWriter, r *http.Request, usual time.Duration, start func(io.Writer) error, stop func()) {
	length := usual
	if text := r.FormValue("seconds"); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(seconds) || seconds <= 0 || seconds > maxRecording.Seconds() {
			http.Error(w, fmt.Sprintf("seconds: %q is not a number of seconds up to %v", text, maxRecording),
				http.StatusBadRequest)
			return
		}
		length = time.Duration(seconds * float64(time.Second))
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := start(w); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer stop()
	ctx, cancel := context.WithTimeout(r.Context(), length)
	defer cancel()
	<-ctx.Done()
}
