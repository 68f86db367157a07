package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/pause"
)

const (
	// probeLabel marks the containers that prove the runtime, with their maker's process id.
	probeLabel = "io.criadapter.probe"
	// probeGroup is a group that a container has from its note alone.
	probeGroup = 4_242_424
	// probeMount is where a probe mounts the notes' directory.
	probeMount = "/notes"
	// probeAge is when a probe's container is nobody's any more.
	probeAge = time.Minute
	// proofTimeout bounds a proof, and proofRetry is when one that failed is repeated. The time doubles, up to
	// maxProofRetry, as long as a part of it fails: that may be for good.
	proofTimeout  = 20 * time.Second
	proofRetry    = 10 * time.Minute
	maxProofRetry = 24 * time.Hour
)

// proof is what probes have shown of an engine.
type proof struct {
	of     proofKey
	proven OCIRuntime
	// retry is how long what did not work counts, until when: it is tried again then. Both are zero when all works.
	retry time.Duration
	until time.Time
}

// proofKey is what a proof depends on.
type proofKey struct {
	version, driver, root string
	found                 OCIRuntime
	args                  []string
	real                  ocinote.Runtime
	selinux               bool
}

// again is the proof that a later look makes of this one.
func (last proof) again(proven OCIRuntime, whole bool) *proof {
	next := &proof{of: last.of, proven: proven}
	if !whole {
		next.retry = min(max(2*last.retry, proofRetry), maxProofRetry)
		next.until = time.Now().Add(next.retry)
	}
	return next
}

// addOCIRuntime completes a session by Features.OCIRuntime. A runtime that is there
// and does not work is reported, not used, and looked at again later, unless the mode
// requires it.
func (c *Client) addOCIRuntime(ctx context.Context, s *session, f facts) error {
	found, real, err := findOCIRuntime(f.info, s.shim)
	if s.notes = found.Notes; s.notes == "" {
		s.notes = ocinote.DefaultDir
	}
	p := probe{api: s.api, runtime: found, engineID: s.engineID, selinux: s.features.SELinux}
	if tidyErr := p.tidyNotes(ctx, s.notes); tidyErr != nil {
		log.G(ctx).WithError(tidyErr).Warn("cannot remove the notes of containers that are gone")
	}
	if c.ociRuntime != OCIRuntimeAuto && c.ociRuntime != OCIRuntimeRequired {
		return nil
	}
	if err == nil && found.Name != "" {
		s.features.OCIRuntime, s.until, err = c.proveOCIRuntime(ctx, p, f, real)
		s.real = real
	}
	switch {
	case err == nil && (found.Name != "" || c.ociRuntime == OCIRuntimeAuto):
		return nil
	case ctx.Err() != nil:
		return err
	case c.ociRuntime == OCIRuntimeAuto:
		s.until = time.Now().Add(proofRetry)
		log.G(ctx).WithError(err).Warn("OCI runtime criadapter-oci does not work on this engine and is not used, trying it again later")
		return nil
	case err != nil:
		return refusal("--oci-runtime=required: %v", err)
	}
	return refusal("--oci-runtime=required: the engine has no runtime whose program is criadapter-oci: %s", installRuntime)
}

// proveOCIRuntime starts containers with the runtime, once for each version and configuration of the engine, and again
// for what did not work: the cause may pass. It returns when to look at that, zero for never.
func (c *Client) proveOCIRuntime(ctx context.Context, p probe, f facts, real ocinote.Runtime) (OCIRuntime, time.Time, error) {
	if err := p.runtime.Notes.SaveRuntime(real); err != nil {
		return OCIRuntime{}, time.Time{}, err
	}
	last := proof{of: proofKey{
		version: f.version.Version, driver: f.info.Driver, root: f.info.DockerRootDir, found: p.runtime, args: f.info.Runtimes[p.runtime.Name].Args,
		real: real, selinux: p.selinux,
	}}
	known := c.proof.Load()
	switch {
	case known == nil || !reflect.DeepEqual(known.of, last.of):
		known = nil
	case time.Now().Before(known.until) || known.until.IsZero():
		return known.proven, known.until, nil
	default:
		last = *known
	}
	bounded, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	proven, whole, err := p.prove(bounded, f.version.Arch, last.proven, known != nil)
	if err == nil {
		err = ctx.Err() // then it says nothing of the engine
	}
	if err != nil && known == nil || ctx.Err() != nil {
		return OCIRuntime{}, time.Time{}, err
	}
	next := last.again(proven, whole && err == nil)
	c.proof.Store(next)
	return next.proven, next.until, nil
}

// probe proves a runtime by a container.
type probe struct {
	api      *client.Client
	runtime  OCIRuntime
	engineID string
	selinux  bool
}

// prove completes what is known to work, if the runtime does. An error is of one that does not; whole says whether nothing
// is left that another look could find.
func (p probe) prove(ctx context.Context, arch string, proven OCIRuntime, works bool) (_ OCIRuntime, whole bool, err error) {
	if err := p.tidyProbes(ctx); err != nil {
		log.G(ctx).WithError(err).Warn("cannot remove containers of earlier proofs of the OCI runtime")
	}
	if err := p.loadImage(ctx, arch); err != nil {
		return proven, false, err
	}
	if !works {
		proven = p.runtime
	}
	able := hasMountSetattr()
	if able && !proven.RecursiveReadOnly {
		proven.RecursiveReadOnly = p.run(ctx, true) == nil
	}
	if !works && !proven.RecursiveReadOnly {
		if err := p.run(ctx, false); err != nil {
			return proven, false, err
		}
	}
	if !proven.UserNamespaces {
		proven.NoUserNamespaces = ""
		if err := p.proveUsers(ctx); err != nil {
			proven.NoUserNamespaces = err.Error()
		}
		proven.UserNamespaces = proven.NoUserNamespaces == ""
	}
	return proven, proven.UserNamespaces && proven.RecursiveReadOnly == able, nil
}

// tidyNotes removes the notes of containers that the engine does not have any more,
// which somebody else has removed, and unfinished ones.
func (p probe) tidyNotes(ctx context.Context, notes ocinote.Dir) error {
	if err := notes.Sweep(); err != nil {
		return err
	}
	noted, err := notes.List()
	if err != nil || len(noted) == 0 {
		return err
	}
	list, err := p.api.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return err
	}
	for _, id := range noted {
		if slices.ContainsFunc(list.Items, func(c container.Summary) bool { return c.ID == id }) {
			continue
		}
		if note, loadErr := notes.Load(id); loadErr == nil && note.Engine == p.engineID {
			err = errors.Join(err, notes.Remove(id))
		}
	}
	return err
}

// tidyProbes removes containers of probes whose makers have ended, or hang.
func (p probe) tidyProbes(ctx context.Context) error {
	list, err := p.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", probeLabel)})
	if err != nil {
		return err
	}
	for _, c := range list.Items {
		_, gone := os.Stat(filepath.Join("/proc", c.Labels[probeLabel]))
		if gone != nil || time.Since(time.Unix(c.Created, 0)) > probeAge {
			err = errors.Join(err, p.remove(ctx, c.ID))
		}
	}
	return err
}

// loadImage loads the built-in sandbox image, which costs next to nothing when it is
// there.
func (p probe) loadImage(ctx context.Context, arch string) error {
	archive, err := pause.Archive(arch)
	if err != nil {
		return err
	}
	answer, err := p.api.ImageLoad(ctx, bytes.NewReader(archive), client.ImageLoadWithQuiet(true))
	if err != nil {
		return fmt.Errorf("load the built-in sandbox image: %w", err)
	}
	defer func() { _ = answer.Close() }()
	return followTransfer(decodeMessages(answer), newTransferred(Features{}), nil)
}

// run starts a container whose note gives it a group, and looks whether it has it.
func (p probe) run(ctx context.Context, recursive bool) error {
	note := ocinote.Note{Engine: p.engineID, Process: ocinote.Process{Groups: &[]uint32{probeGroup}}}
	if recursive {
		note.MountOptions = map[string][]string{probeMount: {"rro"}}
	}
	return p.runWith(ctx, note, p.lookForGroup)
}

// runWith starts a container with a note, and looks at its process.
func (p probe) runWith(ctx context.Context, note ocinote.Note, look func(pid int) error) (err error) {
	created, err := p.api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: "criadapter-probe-" + rand.Text(),
		Config: &container.Config{
			Image: pause.Reference, NetworkDisabled: true, Labels: map[string]string{probeLabel: strconv.Itoa(os.Getpid())},
		},
		HostConfig: &container.HostConfig{
			Runtime: p.runtime.Name, NetworkMode: "none", IpcMode: "none", LogConfig: container.LogConfig{Type: "none"},
			Mounts: []mount.Mount{{Type: mount.TypeBind, Source: string(p.runtime.Notes), Target: probeMount, ReadOnly: true}},
		},
	})
	if err != nil {
		return err
	}
	defer func() {
		settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeAge)
		defer cancel()
		err = errors.Join(err, p.remove(settle, created.ID), p.runtime.Notes.Remove(created.ID))
	}()
	if err := p.runtime.Notes.Save(created.ID, note); err != nil {
		return err
	}
	if _, err := p.api.ContainerStart(ctx, created.ID, client.ContainerStartOptions{}); err != nil {
		return err
	}
	inspect, err := p.api.ContainerInspect(ctx, created.ID, client.ContainerInspectOptions{})
	if err != nil {
		return err
	}
	if inspect.Container.State == nil {
		return fmt.Errorf("the engine does not describe container %s", created.ID)
	}
	return look(inspect.Container.State.Pid)
}

// lookForGroup fails when the process has not the group of its note.
func (p probe) lookForGroup(pid int) error {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if groups, ok := strings.CutPrefix(line, "Groups:"); ok && slices.Contains(strings.Fields(groups), strconv.Itoa(probeGroup)) {
			return nil
		}
	}
	return fmt.Errorf("a container of the runtime %s was started without what its note in %s holds", p.runtime.Name, p.runtime.Notes)
}

func (p probe) remove(ctx context.Context, id string) error {
	_, err := p.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return nil
	}
	return err
}
