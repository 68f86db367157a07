package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// logLines lines of logLine bytes are 100 MB.
	logLines = 1_000_000
	logLine  = 100
	// logTimeout bounds one container's output.
	logTimeout = 2 * time.Minute
)

// BenchmarkContainerLogs lets a container write 100 MB as fast as it can, on criadapter and on containerd with its CRI
// plugin, until all of it is in the CRI log. The CPU time is that of the server and its engine; the shims, which copy the
// output as well and are the same program in both, are left out. A lost line fails the benchmark.
func BenchmarkContainerLogs(b *testing.B) {
	bench := newBench(b)
	ctx := b.Context()
	if err := bench.makeLines(); err != nil {
		b.Fatal(err)
	}
	ours, err := bench.startCriadapter(ctx)
	ours = bench.started(b, ours, err)
	theirs, err := bench.startContainerd(ctx)
	theirs = bench.started(b, theirs, err)

	var serverCPU, allCPU [2]samples
	servers := []*criServer{ours, theirs}
	var measure []func() (time.Duration, error)
	for i, s := range servers {
		measure = append(measure, func() (time.Duration, error) {
			took, server, engine, err := s.writeLog(ctx)
			serverCPU[i], allCPU[i] = append(serverCPU[i], server), append(allCPU[i], server+engine)
			return took, err
		})
	}
	wall := alternate(b, measure...)
	for i, s := range servers {
		serverCPU[i], allCPU[i] = serverCPU[i][1:], allCPU[i][1:] // the first was to warm up
		b.ReportMetric(logLines/wall[i].quantile(0.5).Seconds(), s.name+"-lines/s")
		b.ReportMetric(milliseconds(allCPU[i].quantile(0.5)), s.name+"-cpu-ms/100MB")
		b.ReportMetric(milliseconds(serverCPU[i].quantile(0.5)), s.name+"-server-cpu-ms/100MB")
	}
	report(b, "log-time-to-containerd", wall[0].ratio(wall[1]), 1)
	report(b, "log-cpu-to-containerd", allCPU[0].ratio(allCPU[1]), 1)
}

// makeLines makes the file that the containers write out.
func (b *bench) makeLines() error {
	line := strings.Repeat("x", logLine-1) + "\n"
	return os.WriteFile(b.lines(), bytes.Repeat([]byte(line), logLines), 0o644)
}

func (b *bench) lines() string { return filepath.Join(b.dir, "lines") }

// writeLog runs a container that writes the lines and returns how long it took until all of them were in the log, and the
// CPU time that went into it.
func (s *criServer) writeLog(ctx context.Context) (wall, server, engine time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	p, err := s.up(ctx, "logs", noClock)
	if err != nil {
		return 0, 0, 0, err
	}
	defer joined(&err, func() error { return s.down(context.WithoutCancel(ctx), p, noClock) })
	config := containerConfig("writer", s.image)
	config.Command = []string{"cat", "/lines"}
	config.Mounts = []*runtimeapi.Mount{{HostPath: s.bench.lines(), ContainerPath: "/lines", Readonly: true}}
	created, err := s.runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: p.id, Config: config, SandboxConfig: p.config})
	if err != nil {
		return 0, 0, 0, err
	}
	p.containers = append(p.containers, created.GetContainerId())
	path := filepath.Join(p.config.LogDirectory, config.LogPath)
	server, engine, err = s.cpuOf(func() error {
		wall, err = timed(func() error { return s.runAndCount(ctx, created.GetContainerId(), path) })
		return err
	})
	return wall, server, engine, joinRemove(err, path)
}

// joinRemove removes the log of one round before the next.
func joinRemove(err error, path string) error {
	joined(&err, func() error { return os.Remove(path) })
	return err
}

// runAndCount starts the container and waits until it has ended and its log is complete.
func (s *criServer) runAndCount(ctx context.Context, id, path string) error {
	if _, err := s.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id}); err != nil {
		return err
	}
	for {
		response, err := s.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if err != nil {
			return err
		}
		if response.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
			break
		}
		time.Sleep(pollInterval)
	}
	// At the exit the log is complete, unless the server does not say so.
	for lines := 0; ; time.Sleep(pollInterval) {
		before := lines
		var err error
		if lines, err = countLines(path); err != nil {
			return err
		}
		if lines == logLines {
			return nil
		}
		if ctx.Err() != nil || lines == before {
			return fmt.Errorf("%s: %d of %d lines are in the log", s.name, lines, logLines)
		}
	}
}

func countLines(path string) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	buffer, lines := make([]byte, 1<<20), 0
	for {
		n, err := file.Read(buffer)
		lines += bytes.Count(buffer[:n], []byte{'\n'})
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
