package pleg

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// firstRetry and lastRetry bound the pause before a broken stream is opened again.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
	// unimplementedRetry is the pause after a runtime said that it has no such stream: a newer one may take its place.
	unimplementedRetry = time.Minute
	// goodStream is how long a stream must have lasted to count as one that worked.
	goodStream = 10 * time.Second
)

// listen keeps a stream open until ctx ends, and says on streaming whether there is one.
func (g *Generator) listen(ctx context.Context, streaming chan<- bool) {
	say := func(on bool) {
		select {
		case streaming <- on:
		case <-ctx.Done():
		}
	}
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		began := time.Now()
		opened, err := g.openStream(ctx, say)
		if ctx.Err() != nil {
			return
		}
		if opened {
			say(false)
		}
		switch {
		case status.Code(err) == codes.Unimplemented:
			logrus.Debug("The runtime streams no events; its pods are listed instead")
			pause = unimplementedRetry
		case time.Since(began) > goodStream:
			pause = firstRetry
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// openStream opens one stream and takes its events until it ends. It counts as open with its first event: that a call
// succeeded means nothing before the server has answered something.
func (g *Generator) openStream(ctx context.Context, say func(bool)) (opened bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	responses := make(chan *runtimeapi.ContainerEventResponse, 100)
	go func() {
		defer close(responses)
		err = g.opts.Runtime.GetContainerEvents(ctx, responses, nil)
	}()
	for response := range responses { // until the stream has ended
		if !opened {
			opened = true
			say(true)
		}
		g.hint(ctx, response)
	}
	return opened, err
}

// hint passes on which pod something happened to.
func (g *Generator) hint(ctx context.Context, response *runtimeapi.ContainerEventResponse) {
	sandbox := response.GetPodSandboxStatus()
	uid := types.UID(sandbox.GetMetadata().GetUid())
	if uid == "" || !g.opts.Runtime.Owns(sandbox.GetLabels()) {
		return // nothing says whose it is (the next list will), or it is somebody else's
	}
	select {
	case g.hints <- uid:
	case <-ctx.Done():
	}
}
