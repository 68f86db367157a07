package state

import (
	"context"
	"time"

	"github.com/moby/moby/api/types/container"
	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/docker/translate"
)

// relist compares the mirror with the engine's list and repairs the
// difference. Which containers exist comes from the list, what they do from an
// inspect of each that is not trusted to be known already.
func (m *Mirror) relist(ctx context.Context, trusted func(container.Summary) bool) error {
	m.dropTombstones()
	asked := m.ask()
	defer m.answered(asked)
	list, err := m.listOurs(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxRefreshes)
	listed := make(map[string]struct{}, len(list))
	for _, summary := range list {
		listed[summary.ID] = struct{}{}
		if trusted(summary) {
			continue
		}
		group.Go(func() error { return m.relistOne(ctx, summary.ID) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	m.vanishUnlisted(listed, asked.seq)
	m.showOrphans(listed)
	return nil
}

// relistPatience bounds how long a relist waits for one container. The looks are
// made side by side, so that a few that hang delay the others by so much at most.
const relistPatience = 10 * time.Second

// relistOne passes over a container that inspect cannot find though the list
// showed it, and over one that cannot be inspected (in time) though the engine
// answers: a single broken container must not keep the node from being known.
// What was known of it stays, and it is tried again on its own.
func (m *Mirror) relistOne(ctx context.Context, id string) error {
	look, cancel := context.WithTimeout(ctx, relistPatience)
	err := ignoreNotFound(m.refresh(look, id))
	cancel()
	if err == nil {
		return nil
	}
	if pingErr := m.opts.Engine.Ping(ctx); pingErr != nil {
		return pingErr
	}
	m.lookLater(id)
	return nil
}

// listOurs lists what carries the label that dockershim and its heirs put on
// sandboxes and containers, without what belongs to another criadapter.
func (m *Mirror) listOurs(ctx context.Context) ([]container.Summary, error) {
	list, err := m.opts.Engine.ListContainers(ctx, map[string]string{translate.LabelKind: ""})
	if err != nil {
		return nil, err
	}
	return m.leaveOthers(list), nil
}

// nothing trusts no entry of a list.
func nothing(container.Summary) bool { return false }

// agrees reports whether the mirror already holds what the list says. A
// container that has not run yet is always looked at: it may have run and ended
// with nobody told.
func (m *Mirror) agrees(summary container.Summary) bool {
	running := summary.State == container.StateRunning || summary.State == container.StatePaused || summary.State == container.StateRestarting
	snapshot := m.Snapshot()
	if pod := snapshot.pod(summary.ID); pod != nil {
		return pod.Status.Running == running
	}
	c := snapshot.container(summary.ID)
	if c == nil || c.Status.Unknown {
		return false
	}
	ended := !c.Status.FinishedAt.IsZero()
	return c.Status.Running == running && (running || ended)
}

// vanishUnlisted drops what the engine no longer has, except what was written
// after the list was asked for.
func (m *Mirror) vanishUnlisted(listed map[string]struct{}, seq uint64) {
	for _, id := range m.unlisted(listed, seq) {
		m.vanished(id)
	}
}

func (m *Mirror) unlisted(listed map[string]struct{}, seq uint64) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var gone []string
	drop := func(id string) {
		if _, ok := listed[id]; !ok && m.written[id] <= seq {
			gone = append(gone, id)
		}
	}
	for id := range m.pods {
		drop(id)
	}
	for id := range m.containers {
		drop(id)
	}
	return gone
}
