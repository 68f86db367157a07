// Package adapter runs the criadapter program for tests. Each server has its own socket, state, CNI configuration and
// pod network, so several servers can share one engine. Tests call ForTest; programs call New, Start and Close.
package adapter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/test/process"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

const (
	// startTimeout bounds the time from the process's start to its first answer.
	startTimeout = 5 * time.Minute
	// reconnectDelay is the first pause before gRPC connects again.
	reconnectDelay = 20 * time.Millisecond
	// stopTimeout is how long the process may take to end after SIGTERM.
	stopTimeout = 2 * time.Minute
)

// Options has the settings of a server. Env is required.
type Options struct {
	// Env is the rig that the server runs in, see rigenv.Require.
	Env rigenv.Env
	// Flags follow New's own flags on the command line, and override them.
	Flags []string
	// Environ is added to the environment, as NAME=value.
	Environ []string
}

// Server is one criadapter with its directories. Its methods must not be called concurrently.
type Server struct {
	// Dir has all files of this server, on a shared mount. Tests may add files to it. Close removes it.
	Dir string
	// Endpoint is the address of the CRI socket, unix:///….
	Endpoint string
	// RootDir, CNIConfDir and CNICacheDir are the directories given to the program by flags.
	RootDir, CNIConfDir, CNICacheDir string
	// LogPath is the file with the program's output from all starts.
	LogPath string
	// Subnet is the IPv4 network of its pods, in CIDR notation.
	Subnet string

	// Conn is a plain gRPC connection, for requests that a well-behaved client would not send. Runtime and Images are
	// the kubelet's own client. All three are nil before the first Start and survive a restart of the program.
	Conn    *grpc.ClientConn
	Runtime internalapi.RuntimeService
	Images  internalapi.ImageManagerService

	opts    Options
	network network
	front   *front // the proxy that Clients starts with RUNTIME_MODE=oci, otherwise nil
	process *process.Process
}

// NRIFlags are the flags of a server with NRI. dir gets the socket nri.sock, and the directories plugins and conf.d for
// plugins and their configurations.
func NRIFlags(dir string) []string {
	return []string{"--nri=enabled", "--nri-socket=" + filepath.Join(dir, "nri.sock"),
		"--nri-plugin-dir=" + filepath.Join(dir, "plugins"), "--nri-plugin-config-dir=" + filepath.Join(dir, "conf.d")}
}

// New makes the directories and takes a network for a server in a new directory in opts.Env.WorkDir, without starting
// it. Close must be called even if Start is not.
func New(opts Options) (*Server, error) {
	if opts.Env.Criadapter == "" || opts.Env.CNIBinDir == "" {
		return nil, errors.New("adapter: the rig has no criadapter program or no CNI plugins")
	}
	dir, err := os.MkdirTemp(opts.Env.WorkDir, "cri")
	if err != nil {
		return nil, fmt.Errorf("adapter: %w", err)
	}
	s := &Server{
		Dir:         dir,
		Endpoint:    "unix://" + filepath.Join(dir, "cri.sock"),
		RootDir:     filepath.Join(dir, "root"),
		CNIConfDir:  filepath.Join(dir, "net.d"),
		CNICacheDir: filepath.Join(dir, "cni-cache"),
		LogPath:     filepath.Join(dir, "criadapter.log"),
		opts:        opts,
	}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("adapter: %w", err), s.remove())
	}
	return s, nil
}

func (s *Server) prepare() error {
	// Users in containers must be able to reach mounted files below this directory.
	if err := os.Chmod(s.Dir, 0o755); err != nil {
		return err
	}
	for _, dir := range []string{s.RootDir, s.CNIConfDir, s.CNICacheDir} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	var err error
	if s.network, err = takeNetwork(s.opts.Env.WorkDir); err != nil {
		return err
	}
	s.Subnet = s.network.subnet()
	config, err := s.network.conflist(filepath.Join(s.Dir, "ipam"))
	if err != nil {
		return err
	}
	return os.WriteFile(s.CNIConfig(), config, 0o644)
}

// CNIConfig is the path of the one CNI configuration in CNIConfDir: bridge, host-local and portmap.
func (s *Server) CNIConfig() string { return filepath.Join(s.CNIConfDir, "10-test.conflist") }

// flags are all flags of the program. Options.Flags come last, so they win.
func (s *Server) flags() []string {
	return slices.Concat([]string{
		"--container-runtime-endpoint=" + s.Endpoint,
		"--docker-endpoint=" + s.opts.Env.DockerHost,
		"--network-plugin=cni",
		"--cni-conf-dir=" + s.CNIConfDir,
		"--cni-bin-dir=" + s.opts.Env.CNIBinDir,
		"--cni-cache-dir=" + s.CNICacheDir,
		"--root-directory=" + s.RootDir,
		"--streaming-bind-addr=127.0.0.1:0",
		"--log-level=debug",
	}, modeFlags(s.opts.Env.Mode), s.opts.Flags)
}

// modeFlags are the flags of a rig's mode.
func modeFlags(mode string) []string {
	switch mode {
	case rigenv.ModeOCI:
		return []string{"--sandbox-container=needed"}
	case rigenv.ModeContainer:
		return []string{"--sandbox-container=always"}
	default:
		return nil
	}
}

// SetFlags replaces Options.Flags from the next start on.
func (s *Server) SetFlags(flags ...string) { s.opts.Flags = flags }

// AddFlags adds flags to those in force, from the next start on.
func (s *Server) AddFlags(flags ...string) { s.opts.Flags = append(s.opts.Flags, flags...) }

// Launch starts the program and returns at once, for tests of a refused start. Ended is closed when the program has
// ended.
func (s *Server) Launch() error {
	if s.process.Running() {
		return errors.New("adapter: already running")
	}
	started, err := process.Start(s.LogPath, s.opts.Environ, s.opts.Env.Criadapter, s.flags()...)
	if err != nil {
		return fmt.Errorf("adapter: %w", err)
	}
	s.process = started
	return nil
}

// Start starts the program and waits until Version answers, at most five minutes. After Stop or Kill, Start runs the
// program again with the same directories.
func (s *Server) Start(ctx context.Context) error {
	if err := s.Launch(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := s.connect()
	if err == nil {
		err = s.process.Await(ctx, s.ready)
	}
	if err != nil {
		s.Kill()
		return fmt.Errorf("adapter: criadapter did not come up: %w", err)
	}
	return nil
}

func (s *Server) ready(ctx context.Context) error {
	client := runtimeapi.NewRuntimeServiceClient(s.Conn)
	if _, err := client.Version(ctx, &runtimeapi.VersionRequest{}); err != nil {
		return err
	}
	return s.connectKubeletClient(ctx)
}

// Ended is closed when the program has ended; ExitError then says how. It is a new channel after each start. Call it
// after Launch.
func (s *Server) Ended() <-chan struct{} { return s.process.Ended() }

// ExitError says how the program ended: nil for exit status 0. It waits for the end. Call it after Launch.
func (s *Server) ExitError() error { return s.process.Exit() }

// PID is the program's process id, 0 when it does not run.
func (s *Server) PID() int {
	if !s.process.Running() {
		return 0
	}
	return s.process.PID()
}

// Stop ends the program as systemd does, with SIGTERM, and waits for it. An exit status other than 0 is an error. If
// the program still runs after two minutes or when ctx ends, it is killed, which is an error too. Pods keep running.
func (s *Server) Stop(ctx context.Context) error {
	if !s.process.Running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	err := s.process.Stop(ctx)
	if err == nil {
		err = s.process.Exit()
	}
	if err != nil {
		return fmt.Errorf("adapter: stop criadapter: %w; the end of its log:\n%s", err, s.LogTail())
	}
	return nil
}

// Kill ends the program with SIGKILL, as a crash does, and waits for it.
func (s *Server) Kill() {
	if s.process.Running() {
		s.process.Kill()
	}
}

// Close stops the program, closes the connections, and removes the server's network and directories. It leaves pods and
// images in the engine, because other servers may use them. Callers remove their own pods and images first.
func (s *Server) Close(ctx context.Context) error {
	return errors.Join(s.Stop(ctx), s.disconnect(ctx), s.remove())
}

func (s *Server) remove() error {
	return errors.Join(s.network.release(), os.RemoveAll(s.Dir))
}
