package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/pause"
	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/docs/fence"
)

// takeOverGuide is the document whose commands take pods over from cri-dockerd, and back.
const takeOverGuide = "docs/taking-over-a-node.md"

// takeOver makes the machine a node of the real cri-dockerd, and runs the commands of the guide. The pods' processes
// must be the same all the time.
func (s *suite) takeOver(ctx context.Context) error {
	if s.kind.Architecture != runtime.GOARCH {
		return errors.New("cri-dockerd is built for this host's architecture alone")
	}
	peer, err := peers.CRIDockerd(ctx)
	if err != nil {
		return err
	}
	if err := s.machine.Copy(ctx, peer, "/usr/local/bin/cri-dockerd"); err != nil {
		return err
	}
	if err := s.loadPause(ctx); err != nil {
		return err
	}
	if _, err := s.machine.Run(ctx, debian.StartCRIDockerd()...); err != nil {
		return err
	}
	if err := s.awaitTakenOver(ctx); err != nil {
		return err
	}
	before, err := s.processes(ctx)
	if err != nil {
		return err
	}
	blocks, err := guideBlocks()
	if err != nil {
		return err
	}
	for _, block := range blocks {
		if _, err := s.machine.Shell(ctx, block.Text); err != nil {
			return fmt.Errorf("%s, line %d: %w", takeOverGuide, block.Line, err)
		}
		if err := s.awaitTakenOver(ctx); err != nil {
			return err
		}
		now, err := s.processes(ctx)
		if err != nil {
			return err
		}
		if now != before {
			return fmt.Errorf("%s, line %d: containers changed:\nbefore %s\nnow    %s", takeOverGuide, block.Line,
				before, now)
		}
		fmt.Printf("ok   %s\n", strings.ReplaceAll(strings.TrimSpace(block.Text), "\n", "\n     "))
	}
	return nil
}

// loadPause gives the engine the sandbox image, which cri-dockerd would pull.
func (s *suite) loadPause(ctx context.Context) error {
	archive, err := pause.Archive(s.kind.Architecture)
	if err != nil {
		return err
	}
	file := filepath.Join(s.dir, "pause.tar")
	if err := os.WriteFile(file, archive, 0o644); err != nil {
		return err
	}
	if err := s.machine.Copy(ctx, file, "/root/pause.tar"); err != nil {
		return err
	}
	_, err = s.machine.Run(ctx, "docker", "load", "--quiet", "--input", "/root/pause.tar")
	return err
}

// guideBlocks are the guide's commands.
func guideBlocks() ([]fence.Block, error) {
	documents, err := fence.Documents(".")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(documents, func(d fence.Document) bool { return d.Path == takeOverGuide })
	if i < 0 {
		return nil, fmt.Errorf("there is no document %s", takeOverGuide)
	}
	return slices.DeleteFunc(documents[i].Blocks, func(b fence.Block) bool { return b.Kind != fence.Machine }), nil
}

// awaitTakenOver waits until the pods are ready, whichever server they have.
func (s *suite) awaitTakenOver(ctx context.Context) error {
	return s.awaitPods(ctx, map[string]v1.PodPhase{"web": v1.PodRunning, "agent": v1.PodRunning})
}

// processes shows the engine's containers with their processes and start times.
func (s *suite) processes(ctx context.Context) (string, error) {
	return s.machine.Run(ctx, "sh", "-c", `docker inspect --format '{{.Name}} {{.State.Pid}} {{.State.StartedAt}}' `+
		`$(docker ps --all --quiet --no-trunc | sort)`)
}
