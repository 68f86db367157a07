package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Names of who is measured, as tables and ratios have them.
const (
	nameCriadapter  = "criadapter"
	nameContainerd  = "containerd"
	nameCRIDockerd  = "cri-dockerd"
	nameRawOrdinary = "raw ordinary"
	nameRawBest     = "raw best"
)

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 20 * time.Second
	pollInterval = 20 * time.Millisecond
	maxMessage   = 64 << 20
)

// criServer is a running CRI server.
type criServer struct {
	name    string
	runtime runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient
	conn    *grpc.ClientConn
	// processes are the server's own, and engine those of the engine that it drives.
	processes, engine []int
	// image is what its containers run, by the name that this server knows.
	image string
	// bench is what is common to all servers.
	bench *bench
	// stop ends the server. Its pods are removed before.
	stop func(context.Context) error
}

// connect dials a CRI socket and waits until it answers or exited is closed.
func (s *criServer) connect(ctx context.Context, endpoint string, exited <-chan struct{}) error {
	var err error
	s.conn, err = grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return err
	}
	s.runtime, s.images = runtimeapi.NewRuntimeServiceClient(s.conn), runtimeapi.NewImageServiceClient(s.conn)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		status, err := s.runtime.Status(ctx, &runtimeapi.StatusRequest{})
		if err == nil && ready(status.GetStatus()) {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("%s exited", s.name)
		case <-ctx.Done():
			return fmt.Errorf("%s does not become ready: %w (%v)", s.name, err, status)
		case <-time.After(pollInterval):
			s.conn.ResetConnectBackoff()
		}
	}
}

func ready(status *runtimeapi.RuntimeStatus) bool {
	for _, condition := range status.GetConditions() {
		if !condition.GetStatus() {
			return false
		}
	}
	return len(status.GetConditions()) > 0
}

// pull makes the container image known to the server.
func (s *criServer) pull(ctx context.Context, name string) error {
	s.image = name
	_, err := s.images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	if err != nil {
		return fmt.Errorf("%s: pull %s: %w", s.name, name, err)
	}
	return nil
}

// process is a program that was started for the measurement.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it was waited for
	log  string
}

// startProcess starts a program whose output goes to a file in dir.
func startProcess(dir string, environ []string, program string, args ...string) (*process, error) {
	p := &process{done: make(chan struct{}), log: filepath.Join(dir, filepath.Base(program)+".log")}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Env = append(os.Environ(), environ...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for this program, which stops it in order
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended is in its log
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop asks the program to end, and kills it when it does not.
func (p *process) stop(context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only when it has just ended
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not end after SIGTERM and was killed", p.cmd.Path)
	}
}

// failed is err with the end of the program's log.
func (p *process) failed(err error) error {
	text, readErr := os.ReadFile(p.log)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("%w; the end of its log:\n%s", err, strings.Join(lines[max(0, len(lines)-20):], "\n"))
}
