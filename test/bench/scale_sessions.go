package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// echoPort is the pod's port that sends the input of each connection back.
	echoPort = 9000
	// answerTime bounds the wait for the first output of a session, and for the pod's answer.
	answerTime = 30 * time.Second
	// spareDescriptors is how many more descriptors a server may have open after the sessions than before. They are
	// its own connections, such as idle ones to the engine.
	spareDescriptors = 20
)

// measureSessions opens many sessions to one pod, half of them attach and half port-forward. All stay open until the
// last one works.
func (b *bench) measureSessions(ctx context.Context, crowds []*crowd) error {
	step, err := b.beginStep(ctx, fmt.Sprintf("%d sessions", b.plan.sessions), crowds)
	if err != nil {
		return err
	}
	for _, c := range crowds {
		if err := c.measureSessions(ctx, step, b.plan.sessions); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func (c *crowd) measureSessions(ctx context.Context, step *scaleStep, n int) (err error) {
	p, err := c.up(ctx, "sessions", noClock)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.down(context.WithoutCancel(ctx), p, noClock)) }()
	config := containerConfig("echo", c.imageRef)
	config.Command = []string{"sh", "-c",
		fmt.Sprintf("nc -ll -p %d -e cat & while :; do echo tick; sleep 1; done", echoPort)}
	if err := c.startContainer(ctx, p, config, noClock); err != nil {
		return err
	}
	before, err := descriptors(c.processes)
	if err != nil {
		return err
	}
	if err := c.openSessions(ctx, step, p, n); err != nil {
		return err
	}
	return waitFor(ctx, func() error {
		now, err := descriptors(c.processes)
		if err == nil && now > before+spareDescriptors {
			err = fmt.Errorf("%d descriptors are open after all sessions have ended, %d were open before", now, before)
		}
		return err
	})
}

// openSessions opens n sessions, measures the server's memory, and ends them.
func (c *crowd) openSessions(ctx context.Context, step *scaleStep, p *pod, n int) error {
	ctx, cancel := context.WithCancel(ctx)
	var open sessions
	defer open.group.Wait()
	defer cancel()
	var opening errgroup.Group
	opening.SetLimit(8)
	var mu sync.Mutex
	for i := range n {
		row, begin := "Attach until the first output", func() error { return c.attach(ctx, &open, p.containers[1]) }
		if i%2 == 1 {
			row, begin = "PortForward until the first answer", func() error { return c.forward(ctx, &open, p.id) }
		}
		opening.Go(func() error {
			took, err := timed(begin)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			step.Table.add(row, c.name, took)
			return nil
		})
	}
	if err := opening.Wait(); err != nil {
		return err
	}
	if early := open.early.Load(); early > 0 {
		return fmt.Errorf("%d of %d sessions ended by themselves", early, n)
	}
	return step.weigh([]*crowd{c})
}

// sessions are open sessions.
type sessions struct {
	group sync.WaitGroup
	// early counts the sessions that ended before their context was cancelled.
	early atomic.Int32
}

// run runs a session in the background, and sends the session's error to the returned channel.
func (s *sessions) run(ctx context.Context, session func() error) <-chan error {
	ended := make(chan error, 1)
	s.group.Go(func() {
		err := session()
		if ctx.Err() == nil {
			s.early.Add(1)
		}
		ended <- err
	})
	return ended
}

// began waits until a session works, for answerTime at most.
func began(ctx context.Context, works <-chan struct{}, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	select {
	case <-works:
		return nil
	case err := <-ended:
		return fmt.Errorf("the session ended before it worked: %v", err)
	case <-ctx.Done():
		return fmt.Errorf("the session does not work: %w", ctx.Err())
	}
}

// attach follows a container's output until ctx ends, and returns after the first output.
func (c *crowd) attach(ctx context.Context, open *sessions, id string) error {
	answer, err := c.runtime.Attach(ctx, &runtimeapi.AttachRequest{ContainerId: id, Stdout: true})
	if err != nil {
		return err
	}
	to, err := url.Parse(answer.GetUrl())
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewSPDYExecutor(&clientrest.Config{}, http.MethodPost, to)
	if err != nil {
		return err
	}
	output := &firstWrite{written: make(chan struct{})}
	ended := open.run(ctx, func() error {
		return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: output})
	})
	return began(ctx, output.written, ended)
}

// firstWrite closes written at the first write.
type firstWrite struct {
	once    sync.Once
	written chan struct{}
}

func (f *firstWrite) Write(p []byte) (int, error) {
	f.once.Do(func() { close(f.written) })
	return len(p), nil
}

// forward forwards a connection to the pod until ctx ends, and returns after the first answer.
func (c *crowd) forward(ctx context.Context, open *sessions, pod string) error {
	answer, err := c.runtime.PortForward(ctx,
		&runtimeapi.PortForwardRequest{PodSandboxId: pod, Port: []int32{echoPort}})
	if err != nil {
		return err
	}
	to, err := url.Parse(answer.GetUrl())
	if err != nil {
		return err
	}
	transport, upgrader, err := spdy.RoundTripperFor(&clientrest.Config{})
	if err != nil {
		return err
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, to)
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{":" + strconv.Itoa(echoPort)},
		ctx.Done(), ready, io.Discard, io.Discard)
	if err != nil {
		return err
	}
	ended := open.run(ctx, forwarder.ForwardPorts)
	if err := began(ctx, ready, ended); err != nil {
		return err
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local))))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	return echoes(conn)
}

// echoes sends a line, and reads it back.
func echoes(conn net.Conn) error {
	const line = "ping\n"
	if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, line); err != nil {
		return err
	}
	got := make([]byte, len(line))
	if _, err := io.ReadFull(conn, got); err != nil {
		return fmt.Errorf("the pod's answer: %w", err)
	}
	if string(got) != line {
		return fmt.Errorf("the pod answers %q to %q", got, line)
	}
	return nil
}

// descriptors counts the open file descriptors of processes.
func descriptors(pids []int) (int, error) {
	n := 0
	for _, pid := range pids {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			return 0, err
		}
		n += len(open)
	}
	return n, nil
}
