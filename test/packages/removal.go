package main

import (
	"context"
	"errors"
	"strings"

	"github.com/criadapter/criadapter/test/debian"
)

// The pod of removalWaits, and the crictl command for it.
const (
	ownCrictl = "/mnt/crictl --runtime-endpoint unix://" + ownSocket + " "
	strictPod = `
		echo '{"metadata": {"name": "strict", "namespace": "default", "uid": "strict", "attempt": 0}, "log_directory": "/var/log/pods/strict", "linux": {}}' > /run/strict.json
		echo '{"metadata": {"name": "hello", "attempt": 0}, "image": {"image": "` + debian.PodImage + `"}, "log_path": "hello.log",
			"linux": {"security_context": {"supplemental_groups_policy": 1}}}' > /run/stricter.json
		` + ownCrictl + `run --no-pull /run/stricter.json /run/strict.json
		ls /run/criadapter/oci | grep -Ex '[0-9a-f]{64}'
		`
)

// removalWaits removes the package while a container needs the package's OCI runtime. dpkg must refuse the removal
// until the container is gone. It must not refuse an upgrade, after which the new program can stop the container.
func (s *suite) removalWaits(ctx context.Context) error {
	if err := s.useOCIRuntime(ctx); err != nil {
		return err
	}
	if _, err := s.machine.Shell(ctx, strictPod+"dpkg --install "+s.deb(newVersion, "criadapter")); err != nil {
		return err
	}
	if err := s.serves(ctx, ownSocket, newVersion); err != nil {
		return err
	}
	out, err := s.machine.Run(ctx, "dpkg", "--remove", "criadapter")
	const sentence = "containers of pods use /usr/bin/criadapter-oci, which the engine calls to end them: drain " +
		"the node, and remove its pods (crictl rmp -af)"
	if err == nil || !strings.Contains(out, sentence) {
		return errors.Join(errors.New("the removal was not refused as it should: "+out), err)
	}
	if err := s.serves(ctx, ownSocket, newVersion); err != nil { // a refused removal changes nothing
		return err
	}
	// The script follows the advice of the refusal, but only for this pod. The next checks need the other pods.
	if _, err := s.machine.Shell(ctx, ownCrictl+`ps --quiet --pod $(`+ownCrictl+`pods --quiet --name strict) | grep .
		`+ownCrictl+`rmp --force $(`+ownCrictl+`pods --quiet --name strict)
		not ls /run/criadapter/oci/????????????????????????????????????????????????????????????????
		systemctl stop kubelet-core
		dpkg --remove criadapter > /run/removed 2>&1 || { cat /run/removed; exit 1; }
		grep '/etc/docker/daemon.json still names criadapter-oci' /run/removed
		not test -e /usr/bin/criadapter-oci
		not test -L /usr/bin/containerd-shim-criadapter-v2
		not test -e /usr/libexec/criadapter
		dpkg --install `+s.deb(newVersion, "criadapter")+`
		systemctl start kubelet-core`); err != nil {
		return err
	}
	return errors.Join(s.serves(ctx, ownSocket, newVersion), s.untouched(ctx))
}

// useOCIRuntime makes criadapter-oci a runtime of the engine and waits until criadapter uses it.
func (s *suite) useOCIRuntime(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, `
		test "$(realpath /usr/bin/containerd-shim-criadapter-v2)" = /usr/bin/criadapter-oci
		test "$(realpath /usr/libexec/criadapter/runc)" = /usr/bin/criadapter-oci
		/usr/libexec/criadapter/runc --version
		`+debian.UseOCIRuntime); err != nil {
		return err
	}
	return s.eventually(ctx, func() error {
		_, err := s.machine.Shell(ctx, debian.UsesOCIRuntime(ownCrictl))
		return err
	})
}

// bundle makes a bundle for a bug report. Its log is from the journal.
func (s *suite) bundle(ctx context.Context) error {
	_, err := s.machine.Shell(ctx, `
		criadapter debug bundle --file /run/bug.tar.gz
		test "$(stat --format %a /run/bug.tar.gz)" = 600
		rm -rf /run/bug
		mkdir /run/bug
		tar -xzf /run/bug.tar.gz --strip-components 1 -C /run/bug
		ls -l /run/bug
		grep 'msg="serving CRI"' /run/bug/log.txt
		grep systemd /run/bug/log.txt
		not grep -l '^not collected' /run/bug/check.txt /run/bug/status.json /run/bug/log.txt
		criadapter debug bundle --file /run/none.tar.gz --unit no-such-unit
		tar -xzOf /run/none.tar.gz --wildcards '*/log.txt' | grep 'nothing of the unit no-such-unit: name another with --unit'`)
	return err
}
