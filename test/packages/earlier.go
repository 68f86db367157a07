package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/rig/cache"
)

// The earlier release is built from a commit of this repository whose records of pods have schema version 1.
const (
	earlierCommit  = "bac99772"
	earlierVersion = "0.9.0"
)

// earlierRelease returns a directory with the earlier release, empty if this clone's history does not reach back to it.
func earlierRelease(ctx context.Context) (string, error) {
	if exec.CommandContext(ctx, "git", "cat-file", "-e", earlierCommit+"^{commit}").Run() != nil {
		return "", nil
	}
	key := cache.Key("release", earlierCommit, earlierVersion, architecture)
	return cache.Fill(ctx, key, func(ctx context.Context, dir string) error {
		fmt.Println("building the release of commit " + earlierCommit + " …")
		sources := filepath.Join(dir, "sources")
		if err := checkOut(ctx, earlierCommit, sources); err != nil {
			return err
		}
		out := filepath.Join(dir, "release")
		if err := debian.Release(ctx, sources, earlierVersion, architecture, out); err != nil {
			return err
		}
		return os.RemoveAll(sources)
	})
}

// checkOut writes the files of a commit to a directory.
func checkOut(ctx context.Context, commit, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	archive := exec.CommandContext(ctx, "git", "archive", "--format=tar", commit)
	unpack := exec.CommandContext(ctx, "tar", "-x", "-C", dir)
	var pipe io.ReadCloser
	var err error
	if pipe, err = archive.StdoutPipe(); err != nil {
		return err
	}
	unpack.Stdin = pipe
	if err := archive.Start(); err != nil {
		return err
	}
	unpacked := unpack.Run()
	return errors.Join(unpacked, archive.Wait())
}

// runPod returns shell commands that run a pod of this name with one container, through crictl. The container has its
// own PID namespace, because a shared PID namespace needs a sandbox container.
func runPod(name string) string {
	const linux = `"linux": {"security_context": {"namespace_options": {"pid": 1}}}`
	return `
		echo '{"metadata": {"name": "` + name + `", "namespace": "default", "uid": "` + name + `", "attempt": 0}, "log_directory": "/var/log/pods/` + name + `", ` + linux + `}' > /run/pod.json
		echo '{"metadata": {"name": "hello", "attempt": 0}, "image": {"image": "` + debian.PodImage + `"}, "log_path": "hello.log", ` + linux + `}' > /run/container.json
		` + ownCrictl + `run --no-pull /run/container.json /run/pod.json
		`
}

// sandboxContainers returns shell commands that set sandbox-container to mode, for new pods.
func sandboxContainers(mode string) string {
	return `
		sed --in-place /sandbox-container/d /etc/criadapter/config.yaml
		echo 'sandbox-container: ` + mode + `' >> /etc/criadapter/config.yaml
		systemctl restart criadapter
		`
}

// earlier downgrades criadapter to an earlier release while pods run, makes more pods with the earlier release, and
// upgrades again. Only some of the pods have a sandbox container. No process of a pod may end. No kubelet runs
// meanwhile, because it would replace the pods that the earlier release does not know.
func (s *suite) earlier(ctx context.Context) error {
	if has, err := s.machine.Shell(ctx, "ls /mnt | grep -x "+earlierVersion+" || true"); err != nil || has == "" {
		fmt.Println("     left out: the history of this clone does not have commit " + earlierCommit)
		return err
	}
	out, err := s.machine.Shell(ctx, runPod("without")+`
		dpkg --remove kubelet-core # the earlier package has the program itself
		dpkg --force-confold --install `+s.deb(earlierVersion, "criadapter")+` 2>&1`)
	if err != nil {
		return err
	}
	for _, part := range []string{"criadapter: " + earlierVersion + " is older", "3 pods", "drain the node first"} {
		if !strings.Contains(out, part) {
			return fmt.Errorf("the downgrade does not say %q:\n%s", part, out)
		}
	}
	if err := s.serves(ctx, ownSocket, earlierVersion); err != nil {
		return err
	}
	if _, err := s.machine.Shell(ctx, runPod("old-without")+sandboxContainers("always")+runPod("old-with")+
		sandboxContainers("needed")); err != nil {
		return err
	}
	before, err := s.containers(ctx)
	if err != nil {
		return err
	}
	if len(before) != len(s.before)+4 { // three more pods have four containers, one of them a sandbox container
		return fmt.Errorf("%d containers before the upgrade: %v", len(before), before)
	}
	if _, err := s.machine.Shell(ctx, "dpkg --force-confold --install "+s.deb(newVersion, "criadapter")); err != nil {
		return err
	}
	if err := s.serves(ctx, ownSocket, newVersion); err != nil {
		return err
	}
	return errors.Join(s.same(ctx, before), s.back(ctx))
}

// back checks that this release serves all pods, removes the pods of crictl, and starts the kubelet core again.
func (s *suite) back(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, `
		test $(`+ownCrictl+`pods --quiet --state ready | wc -l) = 5
		for pod in without old-without old-with; do
			container=$(`+ownCrictl+`ps --quiet --pod $(`+ownCrictl+`pods --quiet --name "^$pod\$") | grep .)
			`+ownCrictl+`inspect $container | grep CONTAINER_RUNNING
			`+ownCrictl+`rmp --force $(`+ownCrictl+`pods --quiet --name "^$pod\$")
		done
		sed --in-place /sandbox-container/d /etc/criadapter/config.yaml
		systemctl restart criadapter
		dpkg --install `+s.deb(newVersion, "kubelet-core")+`
		systemctl is-active kubelet-core`); err != nil {
		return err
	}
	return errors.Join(s.serves(ctx, ownSocket, newVersion), s.untouched(ctx))
}
