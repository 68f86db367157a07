package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// logLine is the length of a line that a container writes, in bytes.
	logLine = 100
	// logUnit is the number of logged bytes that a CPU time in the result is for.
	logUnit = 100_000_000
	// logTimeout bounds one container's output.
	logTimeout = 2 * time.Minute
)

// logCost is what container logs cost a server. It leaves out the shims, which are the same program for all servers.
type logCost struct {
	// LinesPerSecond is the median rate of lines into the CRI log while a container wrote as fast as it could.
	LinesPerSecond float64 `json:"linesPerSecond"`
	// ServerCPU and AllCPU are the CPU times of the server and of the server with its engine for 100 MB.
	ServerCPU float64 `json:"serverCPUms"`
	AllCPU    float64 `json:"allCPUms"`
}

// measureLogs lets a container write as fast as it can, on criadapter and on containerd, until all of it is in the CRI
// log. A lost line is an error.
func (b *bench) measureLogs(ctx context.Context) error {
	if err := b.makeLines(); err != nil {
		return err
	}
	servers := b.serversNamed(nameCriadapter, nameContainerd)
	var wall, serverCPU, allCPU [2]samples
	err := turns(1+b.plan.logs, len(servers), func(round, i int) error {
		took, server, engine, err := servers[i].writeLog(ctx)
		if round > 0 { // the first round only warms up
			wall[i], serverCPU[i], allCPU[i] = append(wall[i], took), append(serverCPU[i], server), append(allCPU[i],
				server+engine)
		}
		return err
	})
	if err != nil {
		return err
	}
	b.result.Logs = map[string]logCost{}
	per := func(s samples) float64 {
		return milliseconds(s.quantile(0.5)) * logUnit / float64(b.plan.logLines*logLine)
	}
	for i, s := range servers {
		b.result.Logs[s.name] = logCost{
			LinesPerSecond: float64(b.plan.logLines) / wall[i].quantile(0.5).Seconds(),
			ServerCPU:      per(serverCPU[i]), AllCPU: per(allCPU[i]),
		}
	}
	b.result.add("log-time-to-containerd", wall[0].ratio(wall[1]), 1)
	b.result.add("log-cpu-to-containerd", allCPU[0].ratio(allCPU[1]), 1)
	return nil
}

func printLogs(w io.Writer, costs map[string]logCost) {
	if len(costs) == 0 {
		return
	}
	fmt.Fprintln(w, "Container logs\tlines/s\tCPU ms per 100 MB, server\twith its engine\t")
	for _, name := range []string{nameCriadapter, nameContainerd} {
		c := costs[name]
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t\n", name, c.LinesPerSecond, c.ServerCPU, c.AllCPU)
	}
	fmt.Fprintln(w)
}

// makeLines makes the file that the containers write out.
func (b *bench) makeLines() error {
	line := strings.Repeat("x", logLine-1) + "\n"
	return os.WriteFile(b.lines(), bytes.Repeat([]byte(line), b.plan.logLines), 0o644)
}

func (b *bench) lines() string { return filepath.Join(b.dir, "lines") }

// writeLog runs a container that writes the lines. It returns the time until all of them were in the log, and the CPU
// times of the server and the engine.
func (s *criServer) writeLog(ctx context.Context) (wall, server, engine time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	p, err := s.up(ctx, "logs", noClock)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() {
		err = errors.Join(err, s.down(context.WithoutCancel(ctx), p, noClock), os.RemoveAll(p.config.GetLogDirectory()))
	}()
	config := containerConfig("writer", s.imageRef)
	config.Command = []string{"cat", "/lines"}
	config.Mounts = []*runtimeapi.Mount{{HostPath: s.bench.lines(), ContainerPath: "/lines", Readonly: true}}
	created, err := s.runtime.CreateContainer(ctx,
		&runtimeapi.CreateContainerRequest{PodSandboxId: p.id, Config: config, SandboxConfig: p.config})
	if err != nil {
		return 0, 0, 0, err
	}
	p.containers = append(p.containers, created.GetContainerId())
	path := filepath.Join(p.config.GetLogDirectory(), config.GetLogPath())
	server, engine, err = s.cpuOf(func() error {
		wall, err = timed(func() error { return s.runAndCount(ctx, created.GetContainerId(), path) })
		return err
	})
	return wall, server, engine, err
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
	// A server may report the exit before the log is complete. Then the log must still grow.
	for lines := -1; ; time.Sleep(pollInterval) {
		before := lines
		var err error
		if lines, err = countLines(path); err != nil {
			return err
		}
		if lines == s.bench.plan.logLines {
			return nil
		}
		if ctx.Err() != nil || lines == before {
			return fmt.Errorf("%s: %d of %d lines are in the log", s.name, lines, s.bench.plan.logLines)
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
