package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/containerd/errdefs"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/cgroup"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/step"
	"github.com/criadapter/criadapter/state"
)

// kernelSetUp is a pod without a sandbox container that is being set up.
type kernelSetUp struct {
	kernelHolder
	pod translate.KernelPod
}

// create implements holderSetUp. The id is random and as long as the engine's ids, so it is never used twice.
func (k *kernelSetUp) create(_ context.Context, p *pending) (string, error) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails
	id := hex.EncodeToString(random)
	p.record.Namespaces = k.namespacesOf(id)
	if !k.pod.UTS {
		p.record.Namespaces.UTS = ""
	}
	if !k.pod.IPC {
		p.record.Namespaces.IPC, p.record.Namespaces.Shm = "", ""
	}
	if k.pod.Users != nil {
		p.record.UserNamespace = filepath.Join(p.record.Namespaces.Dir, userFile)
	}
	return id, nil
}

// start implements holderSetUp. If a crash leaves parts of the pod without a record, Service.look finds them by their
// owner file.
func (k *kernelSetUp) start(ctx context.Context, p *pending) error {
	if err := k.makeCgroup(p); err != nil {
		return err
	}
	if path := p.record.NetnsPath; path != "" {
		p.undo.push("unpin the pod's network namespace",
			func(context.Context) error { return netns.Open(path).Unpin() })
	}
	var group errgroup.Group
	group.Go(func() error { return k.opts.Store.Save(ctx, p.record) })
	group.Go(func() error { return k.make(ctx, p) })
	if err := group.Wait(); err != nil {
		return err
	}
	return k.opts.Files.write(p.record.SandboxID, p.config, nil)
}

// make makes the pod's directory with its owner file, the pod's /dev/shm and its namespaces.
func (k *kernelSetUp) make(ctx context.Context, p *pending) error {
	ns := p.record.Namespaces
	if err := makeOwned(ns.Dir, owner{RootDirectory: k.opts.RootDirectory, Record: p.record}); err != nil {
		return fmt.Errorf("making the directory of the pod's namespaces: %w", err)
	}
	if ns.Shm != "" {
		if err := mountShm(ns.Shm, k.pod.Users); err != nil {
			return err
		}
	}
	set := setOf(p.record)
	set.Hostname, set.Sysctls = k.pod.Hostname, k.pod.Sysctls
	setUsers(&set, k.pod.Users)
	if err := set.Make(ctx); err != nil {
		if errdefs.IsInvalidArgument(err) {
			return fmt.Errorf("config.linux.sysctls: %w", err)
		}
		return err
	}
	return nil
}

func mountShm(dir string, users *translate.Users) error {
	defer step.At("pod directory: mount shm")()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("making the pod's /dev/shm: %w", err)
	}
	options := "mode=1777,size=" + strconv.Itoa(translate.ShmSize)
	if users != nil {
		options += fmt.Sprintf(",uid=%d,gid=%d", users.UIDs.HostID, users.GIDs.HostID)
	}
	if err := unix.Mount("shm", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
		return fmt.Errorf("mounting the pod's /dev/shm: %w", err)
	}
	return nil
}

// makeCgroup makes the pod's cgroup if no kubelet has made it, so that the pod's limits apply before its first
// container.
func (k *kernelSetUp) makeCgroup(p *pending) error {
	if p.record.Cgroup == nil {
		return nil
	}
	for _, dir := range k.opts.Cgroups.ParentDirs(p.cgroup.Driver, p.cgroup.Parent) {
		if err := cgroup.Make(dir); err != nil {
			return fmt.Errorf("making the pod's cgroup of config.linux.cgroup_parent: %w", err)
		}
	}
	return nil
}

// connect implements holderSetUp.
func (k *kernelSetUp) connect(ctx context.Context, p *pending) error {
	return k.network.joinPinned(ctx, p, nil)
}

// abandon implements holderSetUp. It does nothing, because the undo stack has the undo of all that start makes.
func (k *kernelSetUp) abandon(*pending) {}

// entry implements holderSetUp.
func (k *kernelSetUp) entry(ctx context.Context, p *pending) state.Pod {
	return state.PodOf(ctx, p.record)
}
