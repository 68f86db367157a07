package docker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// addOCIRuntime sets the session's Features.OCIRuntime. A broken runtime is reported, not used for new containers, and
// probed again later. With OCIRuntimeRequired it is an error.
func (c *Client) addOCIRuntime(ctx context.Context, s *session, f facts) error {
	found, real, err := findOCIRuntime(f.info, s.shim)
	s.notes = cmp.Or(found.Notes, ocinote.DefaultDir)
	if found.Name == shimRuntime {
		s.addOwnShims(f)
	}
	p := probe{api: s.api, runtime: found, engineID: s.engineID, arch: f.version.Arch, selinux: s.features.SELinux}
	if tidyErr := p.tidyNotes(ctx, s.notes, f.info.DockerRootDir); tidyErr != nil {
		log.G(ctx).WithError(tidyErr).Warn("cannot remove the notes of containers that are gone")
	}
	if c.ociRuntime != OCIRuntimeAuto && c.ociRuntime != OCIRuntimeRequired {
		return nil
	}
	if found.Name == shimRuntime {
		// The shim's PATH finds only criadapter-oci as runc, so the note needs an absolute path.
		real.Path = identifyPrograms(witness("/proc", f.peer), real.Path)[0].Path
	}
	s.features.OCIRuntime, s.real = found, real
	if err == nil && found.Name != "" {
		err = c.proveOCIRuntime(ctx, s, p, f)
	}
	switch {
	case err == nil && (found.Name != "" || c.ociRuntime == OCIRuntimeAuto):
		return nil
	case err != nil && ctx.Err() != nil:
		return err
	case c.ociRuntime == OCIRuntimeAuto:
		s.distrust(ctx, err)
		return nil
	case err != nil:
		return refusal("--oci-runtime=required: %v", err)
	}
	return refusal("--oci-runtime=required: the engine has no runtime whose program is criadapter-oci: %s",
		installRuntime)
}

// addOwnShims adds the runtimes with a shim of their own. criadapter-oci can run such a shim if the engine uses
// criadapter-oci as a shim, too.
func (s *session) addOwnShims(f facts) {
	s.features.OwnShims = ownShims(s.runtimes, witness("/proc", f.peer))
	all := slices.AppendSeq(slices.Clone(s.features.PodSandboxRuntimes), maps.Keys(s.features.OwnShims))
	slices.Sort(all)
	s.features.PodSandboxRuntimes = all
}

// distrust keeps the runtime out of new containers until the next look at the engine. Existing pods keep the runtime.
func (s *session) distrust(ctx context.Context, reason error) {
	s.features.OCIRuntime.Fault = reason.Error()
	if s.nextLook.IsZero() {
		s.nextLook = time.Now().Add(maxProofRetry)
	}
	log.G(ctx).WithError(reason).WithField("again", time.Until(s.nextLook).Round(time.Second)).
		Warn("OCI runtime criadapter-oci does not work on this engine, new pods and containers do without it, " +
			"trying it again later")
}

// proveOCIRuntime probes the runtime, unless this process or an earlier one has left a valid proof. It fails if the
// runtime does not work.
func (c *Client) proveOCIRuntime(ctx context.Context, s *session, p probe, f facts) error {
	if err := p.runtime.Notes.SaveRuntime(s.real); err != nil {
		return err
	}
	subject, err := s.proofKey(f).digest()
	if err != nil {
		return err
	}
	last := c.proof.Load()
	if last == nil || last.subject != subject {
		last = loadProof(subject, p.runtime)
	}
	if last.due() {
		if last, err = c.makeProof(ctx, last, p); err != nil {
			return err
		}
	}
	c.proof.Store(last)
	s.features.OCIRuntime, s.nextLook = last.proven, last.nextLook
	if !last.proven.Works() {
		return errors.New(last.proven.Fault)
	}
	return nil
}

// makeProof repeats a proof, or waits for the one that is under way. A caller that leaves does not end the proof:
// health checks wait only for a second, and an engine under load takes longer. A proof that hangs does not make the
// engine unavailable: after proofTimeout the last proof counts until a later look. The caller holds the token of
// c.connecting.
func (c *Client) makeProof(ctx context.Context, last *proof, p probe) (*proof, error) {
	run := c.proving
	if run == nil || run.subject != last.subject {
		run = &proofRun{subject: last.subject, began: time.Now(), done: make(chan struct{})}
		c.proving = run
		go func() {
			defer close(run.done)
			run.made.Store(last.repeat(context.WithoutCancel(ctx), p))
		}()
	}
	patience, cancel := context.WithDeadline(ctx, run.began.Add(proofTimeout))
	defer cancel()
	select {
	case <-run.done:
	case <-patience.Done():
	}
	if made := run.made.Load(); made != nil {
		c.proving = nil
		return made, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	later := *last
	later.nextLook = time.Now().Add(proofRetry)
	return &later, nil
}
