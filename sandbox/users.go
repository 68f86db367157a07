package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/userns"
)

// A pod may have a user namespace of its own, which its other namespaces belong to. It is there before them, so for a pod
// with a sandbox container it is pinned before that has an id.

const userFile = "user"

// usersDir has the pins of the user namespaces of pods with a sandbox container.
func (s *Service) usersDir() string { return filepath.Join(filepath.Dir(s.opts.podsDir), "users") }

// usersPath is the pin of one of them. Another criadapter, whose pins begin with another owner, may have a pod of the same
// name.
func (s *Service) usersPath(name string) string {
	return filepath.Join(s.usersDir(), s.usersOwner()+digest(name))
}

func (s *Service) usersOwner() string { return digest(s.opts.RootDirectory) + "-" }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// sweepUsers removes the pins of this criadapter that no pod has: a crash left them before there was one. They are listed
// before the pods under way, and these before the pods that are there: a pod comes into being in the other order.
func (s *Service) sweepUsers() error {
	pins, err := filepath.Glob(filepath.Join(s.usersDir(), s.usersOwner()+"*"))
	if err != nil || len(pins) == 0 {
		return err
	}
	kept := map[string]bool{}
	for _, name := range s.inflight.names() {
		kept[s.usersPath(name)] = true
	}
	for _, pod := range s.opts.Cache.Snapshot().Pods() {
		kept[s.usersPath(pod.Meta.Name)] = true
	}
	var errs []error
	for _, pin := range pins {
		if !kept[pin] {
			errs = append(errs, netns.Set{User: pin}.Unpin())
		}
	}
	return errors.Join(errs...)
}

// setUsers has a set begin with a user namespace.
func setUsers(set *netns.Set, users *translate.Users) {
	if users == nil {
		return
	}
	set.UIDs = []userns.Mapping{{HostID: int(users.UIDs.HostID), Size: int(users.UIDs.Size)}}
	set.GIDs = []userns.Mapping{{HostID: int(users.GIDs.HostID), Size: int(users.GIDs.Size)}}
}

// clearPin removes the pin that a crash left of a pod that never was. One of a pod that the cache does not know stays.
func (h containerHolder) clearPin(ctx context.Context, name string, set netns.Set) error {
	if _, err := os.Lstat(set.User); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := h.clearName(ctx, name); err != nil {
		return err
	}
	return set.Unpin()
}

// makeUsers makes the user namespace of a pod with a sandbox container, if it is to have one.
func (h containerHolder) makeUsers(ctx context.Context, p *pending) error {
	users := translate.PodUsers(p.config)
	if users == nil {
		return nil
	}
	features, err := h.s.opts.Engine.Features(ctx)
	if err != nil {
		return err
	}
	dir := h.s.usersDir()
	seen, err := h.s.engineSees(ctx, features.Process, dir)
	if err == nil && !seen {
		err = fmt.Errorf("the engine does not see what is mounted in %s: mount %s with Bidirectional propagation: %w", dir, filepath.Dir(dir), errdefs.ErrFailedPrecondition)
	}
	if err != nil {
		return fmt.Errorf("the pod's user namespace: %w", err)
	}
	set := netns.Set{User: h.s.usersPath(p.name)}
	setUsers(&set, users)
	if err := h.clearPin(ctx, p.name, set); err != nil {
		return err
	}
	if p.container.spec, err = translate.InUserNamespace(p.container.spec, p.config, *users, set.User, features); err != nil {
		return err
	}
	p.record.UserNamespace = set.User
	if err := set.Make(ctx); err != nil {
		return fmt.Errorf("the pod's user namespace: %w", err)
	}
	p.undo.push("unpin the pod's user namespace", func(context.Context) error { return set.Unpin() })
	return nil
}

// unpinUsers lets the user namespace of a pod go, which may have none.
func unpinUsers(record checkpoint.Record) error {
	if record.UserNamespace == "" {
		return nil
	}
	return netns.Set{User: record.UserNamespace}.Unpin()
}
