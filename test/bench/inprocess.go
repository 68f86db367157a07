package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/server"
	"github.com/criadapter/criadapter/state"
)

// The numbers of containers in the lists in process, and the number of measured requests for each list.
const (
	smallList  = 1000
	largeList  = 10000
	listRounds = 25
)

// measureInProcess times lists of many containers without gRPC, each after a write, as on a node where a container
// changes between two relists.
func (b *bench) measureInProcess(ctx context.Context) error {
	sizes := []int{smallList, largeList}
	servers := make([]*inProcess, len(sizes))
	for i, size := range sizes {
		servers[i] = newInProcess(size)
	}
	err := turns(listRounds+1, len(sizes), func(round, i int) error {
		runtime.GC() // the garbage of one list must not cost time in the next
		began := time.Now()
		if err := servers[i].writeAndList(ctx); err != nil {
			return err
		}
		if took := time.Since(began); round > 0 {
			b.result.InProcess.add(rowInProcess, fmt.Sprint(sizes[i]), took)
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.result.add("list-10000-to-1000-in-process",
		b.result.InProcess.ratio(rowInProcess, fmt.Sprint(largeList), fmt.Sprint(smallList)), 12)
	return nil
}

// rowInProcess is the row of the lists in process.
const rowInProcess = "write and ListContainers"

// inProcess is a server over a cache that follows no engine.
type inProcess struct {
	server *server.Server
	cache  *state.Cache
	last   string // id of a container
	size   int
}

// filled is a cache that is synced from the start.
type filled struct{ *state.Cache }

func (filled) WaitSynced(context.Context) error { return nil }

func newInProcess(containers int) *inProcess {
	p := &inProcess{cache: state.New(state.Options{}), size: containers}
	for i := range containers {
		sandbox := fmt.Sprintf("%064x", i/2)
		p.last = fmt.Sprintf("c%063x", i)
		p.cache.PutContainer(state.Container{
			ID: p.last, SandboxID: sandbox,
			Meta: state.ContainerMeta{
				CreatedAt: time.Unix(int64(i), 0),
				Config: &runtimeapi.ContainerConfig{
					Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
					Image:    &runtimeapi.ImageSpec{Image: "busybox"},
					Labels:   map[string]string{"io.kubernetes.container.name": "main"},
				},
			},
			Status: state.ContainerStatus{Running: true},
		})
	}
	p.server = server.New(server.Options{Cache: filled{p.cache}})
	return p
}

func (p *inProcess) writeAndList(ctx context.Context) error {
	p.cache.UpdateContainer(p.last, func(s *state.ContainerStatus) { s.Running = !s.Running })
	response, err := p.server.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err == nil && len(response.GetContainers()) != p.size {
		err = fmt.Errorf("%d containers are listed, want %d", len(response.GetContainers()), p.size)
	}
	return err
}
