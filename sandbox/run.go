package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"google.golang.org/protobuf/encoding/protojson"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
)

// Run makes and starts a pod's sandbox with its network complete and returns its id (CRI RunPodSandbox). It fails with
// ErrAlreadyExists when a pod of the same metadata exists, with ErrInvalidArgument naming the field, and with
// ErrUnavailable while the engine is away. With an error it returns the id nonetheless where the set-up came so far as
// to have one. config must not be changed afterwards.
func (s *Service) Run(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (string, error) {
	if err := s.opts.Cache.Err(); err != nil {
		return "", err
	}
	name := translate.SandboxName(config.GetMetadata())
	run, isNew, err := s.inflight.join(name, config, runtimeHandler)
	if err != nil {
		return "", err
	}
	if isNew {
		s.group.Go(func() { s.runInflight(ctx, name, run) })
	}
	select {
	case <-run.done:
		s.inflight.end(name, run)
		return run.id, run.err
	case <-ctx.Done():
		return "", fmt.Errorf("pod sandbox %s is still being created, repeat the request to get it: %w", name, ctx.Err())
	}
}

// runInflight does the set-up on a context that outlives the caller's.
func (s *Service) runInflight(ctx context.Context, name string, run *inflightRun) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.setUpTimeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	run.id, run.err = s.setUp(ctx, name, run.config, run.handler)
	if run.err != nil {
		s.inflight.end(name, run)
	}
	close(run.done)
}

// pending is a pod while it is being set up.
type pending struct {
	name   string
	record checkpoint.Record
	config *runtimeapi.PodSandboxConfig
	undo   undoStack
	// left says that the roll-back failed and that something of the pod is still there.
	left bool
	// holder keeps the pod's namespaces.
	holder holder
	// cgroupDriver is the engine's, and cgroupParent how it is told the pod's cgroup.
	cgroupDriver, cgroupParent string
	// container is the part of the containerHolder, kernel that of the kernelHolder.
	container pendingContainer
	kernel    translate.KernelPod
}

// setUp makes the pod. While it does, the pod's name is reserved and nobody
// sees the pod; what a failed roll-back left is shown before setUp returns.
func (s *Service) setUp(ctx context.Context, name string, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	release, err := s.opts.Cache.Reserve(name)
	if err != nil {
		return "", err
	}
	p, err := s.makePod(ctx, name, config, handler)
	release()
	if err == nil {
		return p.record.SandboxID, nil
	}
	if p == nil {
		return "", err
	}
	if p.left {
		s.show(ctx, p.record.SandboxID)
	}
	return p.record.SandboxID, err
}

// makePod does the set-up and, when it fails, the roll-back. The pod that it
// returns with an error is nil when nothing was touched.
func (s *Service) makePod(ctx context.Context, name string, config *runtimeapi.PodSandboxConfig, handler string) (*pending, error) {
	if err := s.refuseExisting(name); err != nil {
		return nil, err
	}
	p, err := s.prepare(ctx, name, config, handler)
	if err != nil {
		return nil, err
	}
	s.noteCgroup(p)
	defer func() { s.making.end(p.record.SandboxID) }()
	for _, step := range []func(context.Context, *pending) error{
		s.create, p.holder.start, s.limitNew, s.connect, s.finish,
	} {
		if err := step(withSandboxID(ctx, p), p); err != nil {
			return p, s.rollBack(withSandboxID(ctx, p), p, err)
		}
	}
	return p, nil
}

// withSandboxID adds the pod's sandbox to the log lines of what comes, once it has an id.
func withSandboxID(ctx context.Context, p *pending) context.Context {
	if p.record.SandboxID == "" {
		return ctx
	}
	return log.WithLogger(ctx, log.G(ctx).WithField("podSandboxID", p.record.SandboxID))
}

// rollBack takes back what a failed set-up did and returns why it failed.
func (s *Service) rollBack(ctx context.Context, p *pending, cause error) error {
	// The caller may be gone, and its request's line without the reason.
	log.G(ctx).WithError(cause).Info("pod sandbox set-up failed, rolling back")
	p.holder.abandon(p)
	undoErr := p.undo.unwind(ctx)
	p.left = undoErr != nil
	return errors.Join(cause, undoErr)
}

// show makes a pod visible whose roll-back failed. While the engine is away the
// cache finds the pod by itself once the engine is back.
func (s *Service) show(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if _, err := s.opts.Cache.RefreshPod(ctx, id); docker.IgnoreNotFound(err) != nil {
		log.G(ctx).WithError(err).WithField("podSandboxID", id).Warn("cannot inspect pod sandbox after failed roll-back")
	}
}

// refuseExisting looks for the name and its metadata among the pods that are there, whatever their state: the kubelet
// counts its attempts up. Another shim may have given a pod of the same metadata a name with a suffix.
func (s *Service) refuseExisting(name string) error {
	for _, pod := range s.opts.Cache.Snapshot().Pods() {
		if pod.Meta.Name == name || translate.SandboxName(pod.Meta.Config.GetMetadata()) == name {
			return exists(name, pod.ID)
		}
	}
	return nil
}

// prepare does everything that can fail without touching anything.
func (s *Service) prepare(ctx context.Context, name string, config *runtimeapi.PodSandboxConfig, handler string) (*pending, error) {
	features, err := s.opts.Engine.Features(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := protojson.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("config: %w", errdefs.ErrInvalidArgument.WithMessage(err.Error()))
	}
	runtime, _ := features.Runtime(handler) // chooseHolder refuses one that the engine does not have
	p := &pending{name: name, config: config, cgroupDriver: features.CgroupDriver, record: checkpoint.Record{
		Name:           config.GetMetadata().GetName(),
		Namespace:      config.GetMetadata().GetNamespace(),
		UID:            config.GetMetadata().GetUid(),
		Attempt:        config.GetMetadata().GetAttempt(),
		Phase:          checkpoint.PhaseIntent,
		RuntimeHandler: handler,
		Runtime:        runtime,
		Config:         raw,
	}}
	in := translate.SandboxInput{
		Config:         config,
		RuntimeHandler: handler,
		Features:       features,
		PublishPorts:   s.opts.EngineBridge,
		ReadProfile:    translate.ReadProfileFile,
		RootDirectory:  s.opts.RootDirectory,
	}
	return p, s.chooseHolder(ctx, p, in)
}

// create gives the pod its id. Until its checkpoint is written it is found again by its holder alone.
func (s *Service) create(ctx context.Context, p *pending) error {
	id, err := p.holder.create(ctx, p)
	if err != nil {
		return err
	}
	s.making.begin(id)
	p.record.SandboxID = id
	p.record.CreatedAt = time.Now().Round(0) // as its record has it after a restart
	if !s.opts.EngineBridge && !usesHostNetwork(p.config) {
		p.record.NetnsPath = s.netnsPath(id)
	}
	p.undo.push("delete the pod's checkpoint", func(context.Context) error { return s.opts.Store.Delete(ctx, id) })
	p.undo.push("remove the sandbox", func(ctx context.Context) error { return p.holder.remove(ctx, id) })
	p.undo.push("remove the pod's files", func(context.Context) error { return s.opts.Files.remove(id) })
	return nil
}

// exists is the error for a pod whose name is taken by another pod.
func exists(name, id string) error {
	return fmt.Errorf("pod sandbox %s exists with id %s, remove it first or count the attempt up: %w", name, id, errdefs.ErrAlreadyExists)
}

// limitNew limits the new pod before it has a container.
func (s *Service) limitNew(ctx context.Context, p *pending) error {
	linux := p.config.GetLinux()
	_, err := s.limitPod(ctx, p.record, translate.PodLimits{Overhead: linux.GetOverhead(), Resources: linux.GetResources()}, "config.linux.")
	return err
}

// finish makes the set-up durable and only then visible.
func (s *Service) finish(ctx context.Context, p *pending) error {
	p.record.Phase = checkpoint.PhaseReady
	if err := s.opts.Store.Save(ctx, p.record); err != nil {
		return err
	}
	s.opts.Cache.PutPod(p.holder.entry(ctx, p))
	return nil
}

func usesHostNetwork(config *runtimeapi.PodSandboxConfig) bool {
	return config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
}
