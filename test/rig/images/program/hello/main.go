// Command hello is a small well-behaved service for tests: it serves HTTP on port 8080, writes a numbered line to
// stdout and one to stderr every second, and exits 0 on SIGTERM or SIGINT.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// interval is the pause between two lines.
const interval = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

// run serves and logs until ctx ends.
func run(ctx context.Context) error {
	server := &http.Server{Addr: ":8080", Handler: http.HandlerFunc(greet), ReadHeaderTimeout: 10 * time.Second}
	go logLines(ctx)
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func greet(w http.ResponseWriter, _ *http.Request) {
	name, err := os.Hostname()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, "hello from %s\n", name)
}

func logLines(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for n := 1; ; n++ {
		fmt.Fprintf(os.Stdout, "hello stdout %d\n", n)
		fmt.Fprintf(os.Stderr, "hello stderr %d\n", n)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
