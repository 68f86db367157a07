package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/criadapter/criadapter/test/critest/report"
)

// suiteGrace is how long the suite gets to remove its pods after an interrupt.
const suiteGrace = 30 * time.Second

// suite is one run of critest.
type suite struct {
	// program is critest's path.
	program string
	// endpoint is the server's address, unix:///….
	endpoint string
	// registry is the host:port that serves the images.
	registry string
	// reportDir is where the log and the reports go; what an earlier run left there is overwritten.
	reportDir string
}

// runSuite runs all specs, in a fixed order, and returns how each ended. That specs fail is no error.
func runSuite(ctx context.Context, s suite) ([]report.Spec, error) {
	stopRegistry, err := serveRegistry(s.registry)
	if err != nil {
		return nil, err
	}
	defer stopRegistry()
	jsonPath := filepath.Join(s.reportDir, "critest.json")
	if err := os.Remove(jsonPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	log, err := os.Create(filepath.Join(s.reportDir, "critest.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	workDir, err := os.MkdirTemp("", "criadapter-critest-run-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(workDir)

	cmd := exec.CommandContext(ctx, s.program,
		"-runtime-endpoint="+s.endpoint, "-image-endpoint="+s.endpoint,
		"-report-dir="+s.reportDir, "-ginkgo.json-report="+jsonPath, "-ginkgo.no-color", "-ginkgo.timeout=1h",
		"-ginkgo.seed=1")
	// The suite makes temporary directories, also ones that it does not remove.
	cmd.Dir, cmd.Env = workDir, append(os.Environ(), "TMPDIR="+workDir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = suiteGrace
	fmt.Printf("running critest against %s, log in %s\n", s.endpoint, log.Name())
	runErr := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	reportFile, err := os.Open(jsonPath)
	if err != nil {
		return nil, fmt.Errorf("critest wrote no report (%w), it ended with: %w; see %s", err, runErr, log.Name())
	}
	defer reportFile.Close()
	return report.ParseGinkgo(reportFile)
}

// serveRegistry makes the registry at addr answer on the port that is compiled into the suite, too.
func serveRegistry(addr string) (stop func(), err error) {
	fixed := net.JoinHostPort("127.0.0.1", strconv.Itoa(registryPort))
	if addr == fixed {
		return func() {}, nil
	}
	socket, err := net.Listen("tcp", fixed)
	if err != nil {
		return nil, fmt.Errorf("the port that is compiled into critest: %w", err)
	}
	server := &http.Server{Handler: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(socket) // always an error: ErrServerClosed after Close, else pulls fail and say so
	}()
	return func() {
		server.Close()
		<-done
	}, nil
}
