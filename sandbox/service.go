package sandbox

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/keylock"
)

// Service runs the pods of a node. All methods are safe for concurrent use; calls for different pods never wait for
// each other.
type Service struct {
	opts  Options
	locks keylock.Locks
	// checkpoints locks the directories that Checkpoint writes into, and the names of the pods that Restore makes.
	checkpoints keylock.Locks
	inflight    inflightRuns
	// settingUp has the ids of pods that are being set up: their parts may exist before their records.
	settingUp sync.Map

	network    podNetwork
	cgroups    podCgroups
	users      userPins
	containers containerHolder
	kernel     kernelHolder

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	group  sync.WaitGroup // set-ups under way, and removals of pods that no client waits for
}

// New makes the service. Close ends it.
func New(opts Options) *Service {
	if opts.Plugins == nil {
		opts.Plugins = withoutPlugins{}
	}
	opts.podsDir = cmp.Or(opts.podsDir, defaultPodsDir)
	opts.setUpTimeout = cmp.Or(opts.setUpTimeout, 4*time.Minute)
	ctx, cancel := context.WithCancel(context.Background()) // set-ups outlive their callers, not the service
	s := &Service{opts: opts, ctx: ctx, cancel: cancel}
	s.network, s.cgroups, s.users = podNetwork{&s.opts}, podCgroups{&s.opts}, userPins{&s.opts}
	engineView := &mountView{}
	s.containers = containerHolder{opts: &s.opts, network: s.network, users: s.users, engineView: engineView}
	s.kernel = kernelHolder{opts: &s.opts, network: s.network, engineView: engineView}
	s.inflight.gone = func(id string) bool {
		pod, err := opts.Cache.Snapshot().Pod(id)
		return errdefs.IsNotFound(err) || err == nil && pod.Status.State() != runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return s
}

// Close cancels the set-ups under way. It returns when they are rolled back, and when the pods that no client waits for
// are removed.
func (s *Service) Close() {
	s.cancel()
	s.group.Wait()
}

// isSettingUp reports whether a pod's set-up or roll-back is under way.
func (s *Service) isSettingUp(id string) bool {
	_, found := s.settingUp.Load(id)
	return found
}

// holderOf returns the holder of an existing pod.
func (s *Service) holderOf(record checkpoint.Record) holder {
	if record.Namespaces != nil {
		return s.kernel
	}
	return s.containers
}
