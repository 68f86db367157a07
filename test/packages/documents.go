package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/docs/fence"
)

// guide is a document whose commands are run, and the steps before and after them.
type guide struct {
	path          string
	before, after func(*suite, context.Context) error
}

// guides returns the guides in the order in which one node follows them. Each guide needs the state that the previous
// guide leaves.
func guides() []guide {
	return []guide{
		{path: "README.md"},
		{path: "docs/quick-start.md"},
		{path: "docs/troubleshooting.md"},
		{path: "docs/kubelet-core.md"},
		{path: "docs/play.md"},
		{path: "docs/oci-runtime.md"},
		{path: "docs/upgrading.md"},
		{path: "docs/minikube.md"},
		{path: "docs/taking-over-a-node.md", before: (*suite).nodeOfCRIDockerd, after: (*suite).stillCRIDockerds},
	}
}

// documents runs the documents' commands on a new machine, with Docker Engine as Debian installs it. One shell runs all
// blocks of a document, in a directory with a release.
func (s *suite) documents(ctx context.Context) error {
	if err := s.machine.Close(); err != nil {
		return err
	}
	if err := s.boot(ctx); err != nil {
		return err
	}
	if err := s.prepareReader(ctx); err != nil {
		return err
	}
	documents, err := fence.Documents(".")
	if err != nil {
		return err
	}
	scripts, ran := map[string]string{}, 0
	for _, document := range documents {
		if script, blocks := fence.Script(document.Blocks, fence.Machine); blocks > 0 {
			scripts[document.Path] = script
			ran += blocks
		}
	}
	for _, guide := range guides() {
		if err := s.follow(ctx, guide, scripts[guide.path]); err != nil {
			return fmt.Errorf("%s: %w", guide.path, err)
		}
		delete(scripts, guide.path)
	}
	if len(scripts) > 0 {
		return fmt.Errorf("no guide runs the commands of %q: add them to guides", slices.Collect(maps.Keys(scripts)))
	}
	fmt.Printf("     %d blocks of commands of the documents ran\n", ran)
	return nil
}

// follow runs a document's commands.
func (s *suite) follow(ctx context.Context, g guide, script string) error {
	if script == "" {
		return errors.New("no block has the kind sh machine")
	}
	if g.before != nil {
		if err := g.before(s, ctx); err != nil {
			return err
		}
	}
	if _, err := s.machine.Run(ctx, "sh", "-c", "cd /root/release && exec bash -c \"$0\"", script); err != nil {
		return err
	}
	if g.after != nil {
		return g.after(s, ctx)
	}
	return nil
}

// prepareReader makes what the documents assume: sudo, crictl and the directory of a release. It also imports the image
// that the manifests name, because the engine reaches no registry.
func (s *suite) prepareReader(ctx context.Context) error {
	files := "criadapter_" + newVersion + "_" + architecture + ".deb criadapter-cri-docker_" + newVersion + "_" +
		architecture + ".deb kubelet-core_" + newVersion + "_" + architecture + ".deb SHA256SUMS"
	_, err := s.machine.Shell(ctx, `
		printf '#!/bin/sh\nexec "$@"\n' > /usr/local/bin/sudo
		chmod 755 /usr/local/bin/sudo
		cp /mnt/crictl /usr/local/bin
		mkdir -p /root/release/build
		cd /mnt/`+newVersion+`
		cp `+files+` /root/release
		ln -s .. /root/release/build/release
		ip route add default via 192.0.2.254
		cp /mnt/runc /usr/local/sbin/runc
		mkdir /run/image
		cd /run/image
		for program in sh cat sleep; do
			cp --parents $(ldd /bin/$program | grep -o '/[^ ]*') /bin/$program .
		done
		tar -c . | docker import --change 'CMD ["sh", "-c", "echo started; exec sleep 1000000"]' - nginx:1.29`)
	return err
}

// nodeOfCRIDockerd makes the machine a node of the real cri-dockerd, with a kubelet and a pod. criadapter is installed,
// and does not run.
func (s *suite) nodeOfCRIDockerd(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, `
		dpkg --purge criadapter-cri-docker
		cp /mnt/cri-dockerd /usr/local/bin
		mkdir -p /opt/cni /etc/cni/net.d
		cp -r /mnt/plugins /opt/cni/bin
		cp /mnt/10-pods.conflist /etc/cni/net.d`); err != nil {
		return err
	}
	if _, err := s.machine.Run(ctx, debian.StartCRIDockerd()...); err != nil {
		return err
	}
	if err := s.eventually(ctx, func() error { return s.ready(ctx, "web", "agent") }); err != nil {
		return err
	}
	var err error
	s.before, err = s.containers(ctx)
	return err
}

// stillCRIDockerds checks that criadapter took over the pods and cri-dockerd has them back, unchanged and ready.
func (s *suite) stillCRIDockerds(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, `
		test "$(find /var/lib/criadapter/pods -type f | wc -l)" -ge 2 # records that criadapter made of them stay
		systemctl is-active cri-docker.service
		not systemctl is-active criadapter.service`); err != nil {
		return err
	}
	if err := s.eventually(ctx, func() error { return s.ready(ctx, "web", "agent") }); err != nil {
		return err
	}
	return s.untouched(ctx)
}
