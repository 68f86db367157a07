package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/internal/ocinote"
)

const (
	// proofTimeout bounds the first proof. A later one may take as long as it was waited for, if that is longer.
	proofTimeout = 20 * time.Second
	// proofRetry is when a proof that failed is repeated. The time doubles while it fails, up to maxProofRetry if
	// nothing works, and up to maxPartRetry if the runtime works without one of its features.
	proofRetry    = 5 * time.Second
	maxProofRetry = 10 * time.Minute
	maxPartRetry  = 24 * time.Hour
)

// proof is what probes have shown of an engine's runtime. It is immutable.
type proof struct {
	// of is the digest of all that the proof depends on.
	of     string
	proven OCIRuntime
	// retry is how long a failure counts, and until when. Both are zero for a complete proof.
	retry time.Duration
	until time.Time
}

// due reports whether containers are to be started for it.
func (p proof) due() bool {
	if p.until.IsZero() {
		return !p.proven.Works()
	}
	return !time.Now().Before(p.until)
}

// again is the proof that a later look makes of this one.
func (p proof) again(proven OCIRuntime) *proof {
	next := &proof{of: p.of, proven: proven}
	if proven.complete() {
		return next
	}
	longest := maxPartRetry
	if !proven.Works() {
		longest = maxProofRetry
	}
	next.retry = min(max(2*p.retry, proofRetry), longest)
	next.until = time.Now().Add(next.retry)
	return next
}

// complete reports whether everything works that the kernel allows.
func (r OCIRuntime) complete() bool {
	return r.Works() && r.UserNamespaces && (r.RecursiveReadOnly || !hasMountSetattr())
}

// savedProof is a proof on disk.
type savedProof struct {
	Of     string     `json:"of"`
	Proven OCIRuntime `json:"proven"`
}

// save keeps a good proof for the next start of the program.
func (p proof) save() error {
	text, err := json.Marshal(savedProof{Of: p.of, Proven: p.proven})
	if err != nil {
		return err
	}
	return p.proven.Notes.SaveProof(text)
}

// loadProof returns the saved proof if it has this digest, otherwise one that has shown nothing. What did not work
// before is looked at soon, in the background.
func loadProof(of string, found OCIRuntime) *proof {
	var saved savedProof
	text, err := found.Notes.LoadProof()
	if err != nil || json.Unmarshal(text, &saved) != nil || saved.Of != of || !saved.Proven.Works() {
		found.Fault = "no container has shown yet that it works"
		return &proof{of: of, proven: found}
	}
	p := &proof{of: of, proven: saved.Proven}
	if !p.proven.complete() {
		p.until = time.Now().Add(proofRetry)
	}
	return p
}

// proofKey is what a proof depends on.
type proofKey struct {
	EngineID, Version, Kernel, Driver, Root string
	Found                                   OCIRuntime
	Args                                    []string
	Real                                    ocinote.Runtime
	SELinux                                 bool
	// Programs are the files of the runtime and of the real one.
	Programs []programID
}

func (s *session) proofKey(f facts) proofKey {
	found := s.features.OCIRuntime
	program := f.info.Runtimes[found.Name].Path
	if program == "" {
		program = shimProgram
	}
	return proofKey{
		EngineID: s.engineID, Version: f.version.Version, Kernel: f.info.KernelVersion, Driver: f.info.Driver, Root: f.info.DockerRootDir,
		Found: found, Args: f.info.Runtimes[found.Name].Args, Real: s.real, SELinux: s.features.SELinux,
		Programs: identifyPrograms(witness("/proc", f.peer), program, s.real.Path),
	}
}

// digest is equal for equal keys.
func (k proofKey) digest() (string, error) {
	text, err := json.Marshal(k)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// programID tells a program from one that replaces it.
type programID struct {
	Path     string
	Size     int64
	Modified time.Time
}

// identifyPrograms looks at programs from the engine's process, which dir stands for. One that is not found has only a
// path.
func identifyPrograms(dir string, programs ...string) []programID {
	var ids []programID
	for _, program := range programs {
		places := append(searchPath(dir), programDir(dir))
		if filepath.IsAbs(program) {
			places = []string{"/"}
		}
		id := programID{Path: program}
		for _, place := range places {
			stat, err := os.Stat(filepath.Join(dir, "root", place, program))
			if err == nil && stat.Mode().IsRegular() {
				id = programID{Path: filepath.Join(place, program), Size: stat.Size(), Modified: stat.ModTime().UTC()}
				break
			}
		}
		ids = append(ids, id)
	}
	return ids
}

// addOCIRuntime completes a session by Features.OCIRuntime. A runtime that is there and does not work is reported, used
// for nothing new, and looked at again later, unless the mode requires it.
func (c *Client) addOCIRuntime(ctx context.Context, s *session, f facts) error {
	found, real, err := findOCIRuntime(f.info, s.shim)
	if s.notes = found.Notes; s.notes == "" {
		s.notes = ocinote.DefaultDir
	}
	p := probe{api: s.api, runtime: found, engineID: s.engineID, arch: f.version.Arch, selinux: s.features.SELinux}
	if tidyErr := p.tidyNotes(ctx, s.notes); tidyErr != nil {
		log.G(ctx).WithError(tidyErr).Warn("cannot remove the notes of containers that are gone")
	}
	if c.ociRuntime != OCIRuntimeAuto && c.ociRuntime != OCIRuntimeRequired {
		return nil
	}
	if found.Name == shimRuntime {
		// The shim's PATH leads to criadapter-oci alone.
		real.Path = identifyPrograms(witness("/proc", f.peer), real.Path)[0].Path
	}
	s.features.OCIRuntime, s.real = found, real
	if err == nil && found.Name != "" {
		err = c.proveOCIRuntime(ctx, s, p, f)
	}
	switch {
	case err == nil && (found.Name != "" || c.ociRuntime == OCIRuntimeAuto):
		return nil
	case ctx.Err() != nil:
		return err
	case c.ociRuntime == OCIRuntimeAuto:
		s.distrust(ctx, err)
		return nil
	case err != nil:
		return refusal("--oci-runtime=required: %v", err)
	}
	return refusal("--oci-runtime=required: the engine has no runtime whose program is criadapter-oci: %s", installRuntime)
}

// distrust uses the runtime for nothing new until the engine is looked at again. Pods that it holds go on.
func (s *session) distrust(ctx context.Context, reason error) {
	s.features.OCIRuntime.Fault = reason.Error()
	if s.until.IsZero() {
		s.until = time.Now().Add(maxProofRetry)
	}
	log.G(ctx).WithError(reason).WithField("again", time.Until(s.until).Round(time.Second)).
		Warn("OCI runtime criadapter-oci does not work on this engine and is used for nothing new, trying it again later")
}

// proveOCIRuntime starts containers with the runtime unless a proof, of this start of the program or an earlier one,
// says what works. It fails if the runtime does not work.
func (c *Client) proveOCIRuntime(ctx context.Context, s *session, p probe, f facts) error {
	if err := p.runtime.Notes.SaveRuntime(s.real); err != nil {
		return err
	}
	of, err := s.proofKey(f).digest()
	if err != nil {
		return err
	}
	last := c.proof.Load()
	if last == nil || last.of != of {
		last = loadProof(of, p.runtime)
	}
	if last.due() {
		if last, err = c.makeProof(ctx, last, p); err != nil {
			return err
		}
	}
	c.proof.Store(last)
	s.features.OCIRuntime, s.until = last.proven, last.until
	if !last.proven.Works() {
		return errors.New(last.proven.Fault)
	}
	return nil
}

// proofRun is a proof that is under way.
type proofRun struct {
	of    string
	began time.Time
	made  atomic.Pointer[proof]
	done  chan struct{} // closed when made is there
}

// makeProof repeats a proof, or waits for the one that is under way. A caller that leaves does not end it: health
// checks wait for a second only, and an engine under load takes longer. Nor does a proof that hangs keep the engine
// away: after proofTimeout the last proof counts until a later look. The caller holds the token of c.connecting.
func (c *Client) makeProof(ctx context.Context, last *proof, p probe) (*proof, error) {
	run := c.proving
	if run == nil || run.of != last.of {
		run = &proofRun{of: last.of, began: time.Now(), done: make(chan struct{})}
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
	later.until = time.Now().Add(proofRetry)
	return &later, nil
}

// repeat starts containers for what is not proven, and saves what they have shown.
func (p proof) repeat(ctx context.Context, probe probe) *proof {
	ctx, cancel := context.WithTimeout(ctx, max(proofTimeout, p.retry))
	defer cancel()
	next := p.again(probe.prove(ctx, p.proven))
	if !next.proven.Works() {
		return next
	}
	if err := next.save(); err != nil {
		log.G(ctx).WithError(err).Warn("cannot keep what was found out about the OCI runtime for the next start")
	}
	return next
}
