package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// rpm installs, upgrades and removes the rpm with the program rpm. The scripts run with the machine's systemd.
// Dependencies are not checked, because Debian's packages have other names.
func (s *suite) rpm(ctx context.Context) error {
	file := func(version string) string { return s.rpmOf("criadapter", version) }
	if _, err := s.machine.Shell(ctx, `
		systemctl stop `+ownUnits+` 2>/dev/null || true
		rpm --checksig --nosignature `+file(oldVersion)+`
		rpm --install --nodeps --force-debian `+file(oldVersion)+`
		rpm --query criadapter
		rpm --verify --nodeps criadapter
		systemctl is-enabled `+ownUnits+`
		systemctl start `+ownUnits); err != nil {
		return err
	}
	if err := s.serves(ctx, ownSocket, oldVersion); err != nil {
		return err
	}
	if _, err := s.machine.Shell(ctx, `
		echo 'log-level: debug' >> /etc/criadapter/config.yaml
		rpm --upgrade --nodeps --force-debian `+file(newVersion)+` 2> /run/upgrade
		not grep . /run/upgrade
		grep -q 'log-level: debug' /etc/criadapter/config.yaml
		systemctl is-active `+ownUnits); err != nil {
		return err
	}
	if err := s.serves(ctx, ownSocket, newVersion); err != nil {
		return err
	}
	if err := s.dropInRPM(ctx); err != nil {
		return err
	}
	_, err := s.machine.Shell(ctx, `
		mkdir -p /run/criadapter/oci
		note=/run/criadapter/oci/$(printf %064d 0)
		touch $note
		if rpm --erase --nodeps --force-debian criadapter 2> /run/refusal; then exit 1; fi
		grep 'drain the node' /run/refusal
		systemctl is-active `+ownUnits+`
		rm $note
		rpm --erase --nodeps --force-debian criadapter
		not systemctl is-active criadapter.service
		not systemctl is-active criadapter.socket
		not test -e /usr/bin/criadapter
		not test -e /usr/lib/systemd/system/criadapter.service
		not systemctl is-enabled criadapter.service
		grep -q 'log-level: debug' /etc/criadapter/config.yaml.rpmsave
		rm -r /etc/criadapter /var/lib/criadapter`)
	return errors.Join(err, s.coreRPM(ctx))
}

// dropInRPM installs and removes the rpm of cri-dockerd's names. Its units conflict with criadapter's own units. So the
// rpm must disable criadapter's units while it is installed, or a boot would start only one of the two sets.
func (s *suite) dropInRPM(ctx context.Context) error {
	_, err := s.machine.Shell(ctx, `
		rpm --install --nodeps --force-debian `+s.rpmOf("criadapter-cri-docker", newVersion)+`
		for unit in `+dropInUnits+`; do systemctl is-enabled $unit; done
		for unit in `+ownUnits+`; do not systemctl is-enabled $unit; done
		rpm --erase --nodeps --force-debian criadapter-cri-docker
		for unit in `+ownUnits+`; do systemctl is-enabled $unit; done
		systemctl is-active `+ownUnits)
	return err
}

// rpmOf returns the path of a package's rpm in the machine.
func (s *suite) rpmOf(name, version string) string {
	names, err := filepath.Glob(filepath.Join(s.dir, "share", version, name+"-[0-9]*.rpm"))
	if err != nil || len(names) != 1 {
		return fmt.Sprintf("one-rpm-of-%s-but-%d", version, len(names))
	}
	return filepath.Join("/mnt", version, filepath.Base(names[0]))
}

// coreRPM installs, upgrades and removes the rpm of the kubelet core. criadapter is removed already, so the service
// keeps waiting for the container runtime.
func (s *suite) coreRPM(ctx context.Context) error {
	_, err := s.machine.Shell(ctx, `
		rpm --install --nodeps --force-debian `+s.rpmOf("kubelet-core", oldVersion)+`
		rpm --verify --nodeps kubelet-core
		systemctl is-enabled kubelet-core
		test -d /etc/kubelet-core/manifests
		systemctl start kubelet-core
		systemctl show --property StatusText --value kubelet-core | grep 'Waiting for the container runtime'
		rpm --upgrade --nodeps --force-debian `+s.rpmOf("kubelet-core", newVersion)+` 2> /run/upgrade
		not grep . /run/upgrade
		systemctl is-active kubelet-core
		rpm --erase --nodeps --force-debian kubelet-core
		not systemctl is-active kubelet-core
		not test -e /usr/bin/kubelet-core`)
	return err
}

// apk unpacks the apk with tar, because Debian has no program for it. OpenRC from Debian starts and stops the service.
func (s *suite) apk(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, `
		mkdir /run/apk
		tar -xzf /mnt/`+newVersion+`/criadapter_`+newVersion+`_`+alpineArchitecture()+`.apk -C /run/apk
		cat /run/apk/.PKGINFO
		grep -x 'pkgname = criadapter' /run/apk/.PKGINFO
		tar -tzf /mnt/`+newVersion+`/kubelet-core_`+newVersion+`_`+alpineArchitecture()+`.apk | grep -x usr/bin/kubelet-core
		grep -x 'pkgver = `+newVersion+`' /run/apk/.PKGINFO
		not ls /run/apk/usr/lib/systemd
		rm /run/apk/.[A-Z]*
		test "$(stat --format %a /run/apk/etc/init.d/criadapter)" = 755
		sh -n /run/apk/etc/init.d/criadapter
		cp --archive /run/apk/. /
		tar -C /mnt/openrc -c . | tar -C / -x --keep-directory-symlink --skip-old-files
		ldconfig
		touch /etc/insserv.conf
		cd /run # what OpenRC makes when it boots a machine
		mkdir -p openrc
		cd openrc
		mkdir -p daemons exclusive failed hotplugged inactive options scheduled started starting stopping tmp wasinactive
		touch softlevel
		rc-service criadapter describe
		rc-service --nodeps criadapter start`); err != nil {
		return err
	}
	answers := func() error {
		_, err := s.machine.Shell(ctx, ownCrictl+"version")
		return err
	}
	if err := s.eventually(ctx, answers); err != nil {
		log, _ := s.machine.Run(ctx, "cat", "/var/log/criadapter.log") // part of an error's text only
		return fmt.Errorf("%w\n%s", err, log)
	}
	if _, err := s.machine.Shell(ctx, `
		rc-service criadapter status
		grep 'msg="serving CRI"' /var/log/criadapter.log
		pidof criadapter > /run/first
		kill -KILL $(cat /run/first)`); err != nil {
		return err
	}
	if err := s.eventually(ctx, answers); err != nil {
		return fmt.Errorf("after a crash: %w", err)
	}
	_, err := s.machine.Shell(ctx, `
		not test "$(pidof criadapter)" = "$(cat /run/first)"
		rc-service --nodeps criadapter stop
		not pidof criadapter
		tail -n 1 /var/log/criadapter.log | grep 'shutting down'`)
	return err
}

// alpineArchitecture is Alpine's name of this machine's architecture.
func alpineArchitecture() string {
	return map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[architecture]
}
