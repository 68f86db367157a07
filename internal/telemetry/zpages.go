package telemetry

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"
)

// component is the program's name on its pages.
const component = "criadapter"

// The pages /statusz and /flagz follow KEP-4827 and KEP-4828, like the pages of Kubernetes' components. They are text,
// or JSON for a client that accepts group, version and kind, "application/json;g=config.k8s.io;v=v1beta1;as=Statusz".
const (
	pageGroup   = "config.k8s.io"
	pageVersion = "v1beta1"
	pageWarning = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility " +
		"guarantees and is for debugging purposes only."
)

// page is the common beginning of the JSON answers.
type page struct {
	Kind       string            `json:"kind"`
	APIVersion string            `json:"apiVersion"`
	Metadata   map[string]string `json:"metadata"`
}

func newPage(kind string) page {
	return page{Kind: kind, APIVersion: pageGroup + "/" + pageVersion, Metadata: map[string]string{"name": component}}
}

type statusPage struct {
	page
	StartTime     time.Time `json:"startTime"`
	UptimeSeconds int64     `json:"uptimeSeconds"`
	GoVersion     string    `json:"goVersion"`
	BinaryVersion string    `json:"binaryVersion"`
	Paths         []string  `json:"paths"`
}

type flagsPage struct {
	page
	Flags map[string]string `json:"flags,omitempty"`
}

// statusz answers with the program's version and start time. paths are the other pages.
func statusz(version string, started time.Time, paths []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		up := time.Since(started)
		answer := statusPage{
			page: newPage("Statusz"), StartTime: started.UTC().Truncate(time.Second),
			UptimeSeconds: int64(up.Seconds()),
			GoVersion:     runtime.Version(), BinaryVersion: version, Paths: paths,
		}
		text := fmt.Sprintf(
			"Started: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\n\nPaths: %s\n",
			started.Format(time.UnixDate), int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60,
			answer.GoVersion, answer.BinaryVersion, strings.Join(paths, " "))
		answerPage(w, r, "Statusz", text, answer)
	}
}

// flagz answers with the settings in force. None of them is a secret.
func flagz(inForce func() map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var text strings.Builder
		flags := inForce()
		for _, name := range slices.Sorted(maps.Keys(flags)) {
			fmt.Fprintf(&text, "%s=%s\n", name, flags[name])
		}
		answerPage(w, r, "Flagz", text.String(), flagsPage{page: newPage("Flagz"), Flags: flags})
	}
}

// answerPage answers in the form that the client prefers, and refuses a client that accepts neither.
func answerPage(w http.ResponseWriter, r *http.Request, kind, text string, structured any) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch accepted(r.Header.Get("Accept"), kind) {
	case "text/plain":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "\n%s %s\n%s\n\n%s", component, strings.ToLower(kind), pageWarning, text)
	case "application/json":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(structured) // the client is gone
	default:
		want := fmt.Sprintf("only text/plain and application/json;g=%s;v=%s;as=%s are served here", pageGroup,
			pageVersion, kind)
		http.Error(w, want, http.StatusNotAcceptable)
	}
}

// accepted is the first supported form of an Accept header, text without a header, and empty for none.
func accepted(accept, kind string) string {
	if strings.TrimSpace(accept) == "" {
		return "text/plain"
	}
	for form := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(form)
		if err != nil {
			continue
		}
		switch media {
		case "text/plain", "text/*", "*/*":
			return "text/plain"
		case "application/json":
			if params["g"] == pageGroup && params["v"] == pageVersion && params["as"] == kind {
				return media
			}
		}
	}
	return ""
}
