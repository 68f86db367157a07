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
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/state"
)

// Run starts a pod's sandbox, completes its network and returns its id (CRI RunPodSandbox). It fails with
// ErrAlreadyExists if a pod of the same metadata exists. ErrInvalidArgument names the refused field. It fails with
// ErrUnavailable while the engine is away. If the set-up fails after the pod got its id, Run returns the id with the
// error. config must not be changed afterwards.
func (s *Service) Run(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (string, error) {
	name, run, err := s.begin(ctx, config, runtimeHandler)
	if err != nil {
		return "", err
	}
	if !s.wait(ctx, name, run) {
		return "", fmt.Errorf("pod sandbox %s is still being created, repeat the request to get it: %w", name,
			ctx.Err())
	}
	return run.id, run.err
}

// begin begins a set-up, or joins the set-up of an earlier request. The caller must wait for it.
func (s *Service) begin(
	ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string,
) (name string, run *inflightRun, err error) {
	if err := s.opts.Cache.Err(); err != nil {
		return "", nil, err
	}
	name = translate.SandboxName(config.GetMetadata())
	run, isNew, err := s.inflight.join(name, config, handler)
	if isNew {
		s.group.Go(func() { s.runInflight(ctx, name, run) })
	}
	return name, run, err
}

// wait waits until a set-up is done. It returns false if ctx ends first.
func (s *Service) wait(ctx context.Context, name string, run *inflightRun) bool {
	select {
	case <-run.done:
		s.inflight.end(name, run)
		return true
	case <-ctx.Done():
		s.inflight.leave(run)
		return false
	}
}

// discard waits until a set-up is done and removes its pod, unless another request has got the pod or waits for it.
func (s *Service) discard(ctx context.Context, name string, run *inflightRun) {
	<-run.done
	if run.err != nil || !s.inflight.take(name, run) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if err := s.Remove(ctx, run.id); err != nil {
		log.G(ctx).WithError(err).WithField("podSandboxID", run.id).
			Warn("cannot remove pod sandbox whose client is gone")
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

// setUp makes the pod. Meanwhile the pod's name is reserved and the cache does not show the pod. If the roll-back
// fails, the cache shows the pod before setUp returns.
func (s *Service) setUp(
	ctx context.Context, name string, config *runtimeapi.PodSandboxConfig, handler string,
) (string, error) {
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
	if p.rollBackFailed {
		s.show(ctx, p)
	}
	return p.record.SandboxID, err
}

// makePod does the set-up and, when it fails, the roll-back. With an error, the pod is nil if no step of the set-up has
// begun.
func (s *Service) makePod(
	ctx context.Context, name string, config *runtimeapi.PodSandboxConfig, handler string,
) (*pending, error) {
	if err := s.refuseExisting(name); err != nil {
		return nil, err
	}
	p, err := s.prepare(ctx, name, config, handler)
	if err != nil {
		return nil, err
	}
	s.cgroups.recordNew(p)
	defer func() { s.settingUp.Delete(p.record.SandboxID) }()
	for _, step := range []func(context.Context, *pending) error{
		s.create, p.namespaces.start, s.limitNew, s.connect, s.finish,
	} {
		if err := step(withSandboxID(ctx, p), p); err != nil {
			return p, s.rollBack(withSandboxID(ctx, p), p, err)
		}
	}
	return p, nil
}

// withSandboxID adds the sandbox's id to the logger of ctx, if the pod already has an id.
func withSandboxID(ctx context.Context, p *pending) context.Context {
	if p.record.SandboxID == "" {
		return ctx
	}
	return log.WithLogger(ctx, log.G(ctx).WithField("podSandboxID", p.record.SandboxID))
}

// rollBack undoes the steps of a failed set-up. It returns cause, joined with the error of the undo.
func (s *Service) rollBack(ctx context.Context, p *pending, cause error) error {
	// The caller may be gone. The log line of its request then lacks the reason.
	log.G(ctx).WithError(cause).Info("pod sandbox set-up failed, rolling back")
	p.namespaces.abandon(p)
	undoErr := p.undo.unwind(ctx)
	p.rollBackFailed = undoErr != nil
	return errors.Join(cause, undoErr)
}

// show publishes a pod whose roll-back failed. A pod without a sandbox container is published from its record, and so
// is a pod whose sandbox container cannot be inspected. The roll-back may have removed that container, so a later
// relist would not find the pod.
func (s *Service) show(ctx context.Context, p *pending) {
	if p.record.Namespaces == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		id := p.record.SandboxID
		_, err := s.opts.Cache.RefreshPod(ctx, id)
		if docker.IgnoreNotFound(err) == nil {
			return
		}
		log.G(ctx).WithError(err).WithField("podSandboxID", id).
			Warn("cannot inspect pod sandbox after failed roll-back")
	}
	pod := state.PodOf(ctx, p.record)
	pod.Status.NetworkReady = false
	s.opts.Cache.PutPod(pod)
}

// refuseExisting fails if a pod in any state has the name or the metadata. The kubelet raises the attempt for each new
// sandbox. Another shim may have given a pod of the same metadata a name with a suffix.
func (s *Service) refuseExisting(name string) error {
	for _, pod := range s.opts.Cache.Snapshot().Pods() {
		if pod.Meta.Name == name || translate.SandboxName(pod.Meta.Config.GetMetadata()) == name {
			return exists(name, pod.ID)
		}
	}
	return nil
}

// prepare does the steps that leave nothing behind if they fail.
func (s *Service) prepare(
	ctx context.Context, name string, config *runtimeapi.PodSandboxConfig, handler string,
) (*pending, error) {
	features, err := s.opts.Engine.Features(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := protojson.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("config: %w", errdefs.ErrInvalidArgument.WithMessage(err.Error()))
	}
	runtime, _ := features.Runtime(handler) // chooseHolder refuses an unknown handler
	p := &pending{name: name, config: config, cgroup: checkpoint.Cgroup{Driver: features.CgroupDriver},
		record: checkpoint.Record{
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

// create gives the pod its id. Until the checkpoint is written, only the pod's holder can find the pod.
func (s *Service) create(ctx context.Context, p *pending) error {
	id, err := p.namespaces.create(ctx, p)
	if err != nil {
		return err
	}
	s.settingUp.Store(id, true)
	p.record.SandboxID = id
	p.record.CreatedAt = time.Now().Round(0) // without the monotonic clock, like a time from a checkpoint
	if !s.opts.EngineBridge && !translate.UsesHostNetwork(p.config) {
		p.record.NetnsPath = s.network.netnsPath(id)
	}
	p.undo.push("delete the pod's checkpoint", func(context.Context) error { return s.opts.Store.Delete(ctx, id) })
	p.undo.push("remove the sandbox", func(ctx context.Context) error { return p.namespaces.remove(ctx, id) })
	p.undo.push("remove the pod's files", func(context.Context) error { return s.opts.Files.remove(id) })
	return nil
}

// limitNew sets the limits of the new pod's cgroup before the pod has a container.
func (s *Service) limitNew(ctx context.Context, p *pending) error {
	linux := p.config.GetLinux()
	_, err := s.cgroups.limit(ctx, p.record,
		translate.PodLimits{Overhead: linux.GetOverhead(), Resources: linux.GetResources()}, "config.linux.")
	return err
}

// connect gives a pod that does not use the host network its addresses, interface sysctls and hosts file.
func (s *Service) connect(ctx context.Context, p *pending) error {
	if translate.UsesHostNetwork(p.config) {
		return nil
	}
	if err := p.namespaces.connect(ctx, p); err != nil {
		return err
	}
	if values := translate.InterfaceSysctls(p.config); len(values) > 0 {
		network := netns.Open(p.record.NetnsPath)
		if s.opts.EngineBridge {
			network = netns.OfContainer(p.namespaces.entry(ctx, p).Status.PID, p.record.SandboxID)
		}
		if err := network.SetSysctls(ctx, values); err != nil {
			return fmt.Errorf("config.linux.sysctls: %w", err)
		}
	}
	return s.opts.Files.writeHosts(p.record.SandboxID, p.config, p.record.Network.IPs)
}

// finish calls the NRI plugins, writes the checkpoint, and only then shows the pod. While a plugin can still refuse the
// pod, the record has the intent: after a crash or a failed roll-back the pod is NOTREADY.
func (s *Service) finish(ctx context.Context, p *pending) error {
	p.record.Phase = checkpoint.PhaseReady
	pod := p.namespaces.entry(ctx, p)
	defer s.opts.Plugins.Block()()
	err := s.opts.Plugins.RunPod(ctx, &pod)
	if err == nil {
		err = s.opts.Store.Save(ctx, p.record)
	}
	if err != nil {
		// Plugins that have accepted the pod may hold resources for it. Their undo has a timeout of its own.
		settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		s.opts.Plugins.UndoPod(settle, &pod)
		return err
	}
	s.opts.Cache.PutPod(pod)
	return nil
}
