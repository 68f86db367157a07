package docker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/internal/ocinote"
)

const (
	// proofTimeout bounds a request's wait for a proof.
	proofTimeout = 20 * time.Second
	// proofLimit bounds the first proof, which starts up to three containers. On a slow node, the start of one may take
	// longer than proofTimeout. A later proof may take as long as the pause before it, if that is longer.
	proofLimit = 2 * time.Minute
	// proofRetry is the pause before a failed proof is repeated. It doubles up to maxProofRetry while nothing works,
	// and up to maxPartRetry while only a feature fails.
	proofRetry    = 5 * time.Second
	maxProofRetry = 10 * time.Minute
	maxPartRetry  = 24 * time.Hour
)

// proof is the result of probes of an engine's runtime. It is immutable.
type proof struct {
	// subject is the digest of everything that the proof depends on.
	subject string
	proven  OCIRuntime
	// retry is the pause before failed probes are repeated, and nextLook is its end. Both are zero for a complete
	// proof.
	retry    time.Duration
	nextLook time.Time
}

// due reports whether the probes must run now.
func (p proof) due() bool {
	if p.nextLook.IsZero() {
		return !p.proven.Works()
	}
	return !time.Now().Before(p.nextLook)
}

// next returns the proof that follows p after probes with the result proven. Each failure doubles the pause before the
// next probes.
func (p proof) next(proven OCIRuntime) *proof {
	next := &proof{subject: p.subject, proven: proven}
	if proven.complete() {
		return next
	}
	longest := maxPartRetry
	if !proven.Works() {
		longest = maxProofRetry
	}
	next.retry = min(max(2*p.retry, proofRetry), longest)
	next.nextLook = time.Now().Add(next.retry)
	return next
}

// complete reports whether every feature works that the kernel supports.
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
	text, err := json.Marshal(savedProof{Of: p.subject, Proven: p.proven})
	if err != nil {
		return err
	}
	return p.proven.Notes.SaveProof(text)
}

// loadProof returns the saved proof if it has this digest, otherwise an empty one. Features that failed before are
// probed again soon, in the background.
func loadProof(subject string, found OCIRuntime) *proof {
	var saved savedProof
	text, err := found.Notes.LoadProof()
	if err != nil || json.Unmarshal(text, &saved) != nil || saved.Of != subject || !saved.Proven.Works() {
		found.Fault = "no test container has shown yet that criadapter-oci works"
		return &proof{subject: subject, proven: found}
	}
	p := &proof{subject: subject, proven: saved.Proven}
	if !p.proven.complete() {
		p.nextLook = time.Now().Add(proofRetry)
	}
	return p
}

// proofKey has everything that a proof depends on.
type proofKey struct {
	EngineID, Version, Kernel, Driver, Root string
	Found                                   OCIRuntime
	Args                                    []string
	Real                                    ocinote.Runtime
	SELinux                                 bool
	// Programs are the files of criadapter-oci and of the runtime behind it.
	Programs []programID
	// Note is the note of a probe. A newer criadapter may put fields into it that the installed criadapter-oci does not
	// know. An earlier proof then no longer counts.
	Note ocinote.Note
}

func (s *session) proofKey(f facts) proofKey {
	found := s.features.OCIRuntime
	program := cmp.Or(f.info.Runtimes[found.Name].Path, shimProgram)
	return proofKey{
		Note:     probe{engineID: s.engineID}.groupNote(),
		EngineID: s.engineID, Version: f.version.Version, Kernel: f.info.KernelVersion, Driver: f.info.Driver,
		Root:  f.info.DockerRootDir,
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

// programID identifies a program. A program that replaces it has another programID.
type programID struct {
	Path     string
	Size     int64
	Modified time.Time
}

// identifyPrograms looks programs up as the engine's process would. dir is that process's directory in /proc. A missing
// program has only a path.
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

// prove tests the features that are not proven yet. Fault in the result says why the runtime does not work at all, and
// is empty otherwise.
func (p probe) prove(ctx context.Context, proven OCIRuntime) OCIRuntime {
	if err := p.tidyProbes(ctx); err != nil {
		log.G(ctx).WithError(err).Warn("cannot remove containers of earlier proofs of the OCI runtime")
	}
	if !proven.RecursiveReadOnly && hasMountSetattr() {
		if err := p.proveRecursive(ctx); err == nil {
			proven.RecursiveReadOnly, proven.Fault = true, ""
		} else {
			log.G(ctx).WithError(err).Info("no test has shown that OCI runtime criadapter-oci can make mounts " +
				"read-only recursively")
		}
	}
	if !proven.Works() {
		if err := p.proveGroup(ctx); err != nil {
			proven.Fault = err.Error()
			return proven
		}
		proven.Fault = ""
	}
	if !proven.UserNamespaces {
		proven.NoUserNamespaces = ""
		if err := p.proveUsers(ctx); err != nil {
			proven.NoUserNamespaces = err.Error()
		}
		proven.UserNamespaces = proven.NoUserNamespaces == ""
	}
	return proven
}

// repeat probes the unproven features, and saves the result.
func (p proof) repeat(ctx context.Context, probe probe) *proof {
	ctx, cancel := context.WithTimeout(ctx, max(proofLimit, p.retry))
	defer cancel()
	next := p.next(probe.prove(ctx, p.proven))
	if !next.proven.Works() {
		return next
	}
	if err := next.save(); err != nil {
		log.G(ctx).WithError(err).Warn("cannot save the result of the OCI runtime's probes for the next start")
	}
	return next
}

// proofRun is a proof that is under way.
type proofRun struct {
	subject string
	began   time.Time
	made    atomic.Pointer[proof]
	done    chan struct{} // closed once made is set
}
