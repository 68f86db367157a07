package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/debian"
)

const (
	ownSocket    = "/run/criadapter/criadapter.sock"
	dropInSocket = "/run/cri-dockerd.sock"
	ownUnits     = "criadapter.socket criadapter.service"
	dropInUnits  = "cri-docker.socket cri-docker.service"
)

// deb is the path of a package on the machine.
func (s *suite) deb(version, name string) string {
	return filepath.Join("/mnt", version, name+"_"+version+"_"+architecture+".deb")
}

// serves waits until a socket answers, and one of the services runs criadapter of this version. The answer to CRI's
// Version request does not show that, because it has the engine's version.
func (s *suite) serves(ctx context.Context, socket, version string) error {
	return s.eventually(ctx, func() error {
		out, err := s.machine.Shell(ctx, `
			/mnt/crictl --runtime-endpoint unix://`+socket+` version
			for unit in criadapter cri-docker; do
				pid=$(systemctl show --property MainPID --value $unit)
				test "$pid" = 0 || readlink /proc/$pid/exe
				test "$pid" = 0 || /proc/$pid/exe --version
			done`)
		if out += "\n"; err == nil &&
			!(strings.Contains(out, "\n/usr/bin/criadapter\n") &&
				strings.Contains(out, "\ncriadapter version v"+version+"\n")) {
			err = fmt.Errorf("criadapter %s does not serve:\n%s", version, out)
		}
		return err
	})
}

// install installs the first release as an operator does, on a node with Docker Engine and a CNI network.
func (s *suite) install(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, `
		cp /mnt/runc /usr/local/sbin/runc
		mkdir -p /opt/cni /etc/cni/net.d /etc/docker
		cp -r /mnt/plugins /opt/cni/bin
		cp /mnt/10-pods.conflist /etc/cni/net.d
		echo '{"bridge": "none", "iptables": false, "ip6tables": false, "storage-driver": "overlay2"}' > /etc/docker/daemon.json
		systemctl restart docker`); err != nil {
		return err
	}
	if _, err := s.machine.Shell(ctx, `
		echo 'KUBELET_CORE_ARGS="--node-ip 192.0.2.1"' > /etc/default/kubelet-core
		dpkg --install `+s.deb(oldVersion, "criadapter")+" "+s.deb(oldVersion, "kubelet-core")+`
		systemctl is-enabled kubelet-core
		systemctl is-active kubelet-core
		systemctl show --property StatusText --value kubelet-core | grep -x '0 pods'
		test -d /etc/kubelet-core/manifests
		kubelet-core config validate
		systemctl reload kubelet-core
		systemctl is-enabled `+ownUnits+`
		systemctl is-active `+ownUnits+`
		systemctl reload criadapter
		test "$(stat --format %a `+ownSocket+`)" = 600
		for program in criadapter kubelet-core; do $program --version | grep -x "$program version v`+oldVersion+`"; done
		criadapter-oci --criadapter-version | grep -x 'criadapter-oci v`+oldVersion+`'
		kubelet-core --help
		for program in criadapter kubelet-core; do bash -n /usr/share/bash-completion/completions/$program; done
		test -s /usr/share/man/man1/criadapter.1
		test -s /usr/share/man/man1/kubelet-core-run.1
		test -s /usr/share/criadapter/grafana/criadapter.json
		test -s /usr/share/criadapter/prometheus/alerts.yaml`); err != nil {
		return err
	}
	return s.serves(ctx, ownSocket, oldVersion)
}

// recovered restarts the service while pods run. systemd must see the service as ready only when it knows the pods.
func (s *suite) recovered(ctx context.Context) error {
	_, err := s.machine.Shell(ctx, `
		before=$(systemctl show --property MainPID --value criadapter)
		systemctl restart criadapter
		systemctl show --property StatusText --value criadapter | grep -x 'Serving CRI, 2 pods and 2 containers'
		not test "$(systemctl show --property MainPID --value criadapter)" = "$before"
		test "$(systemctl show --property WatchdogUSec --value criadapter)" = 1min
		systemctl is-active criadapter.socket`)
	return errors.Join(err, s.untouched(ctx))
}

// upgrade installs the packages of the next release one after the other, while pods run and a client sends requests.
// The operator's change of the configuration must stay.
func (s *suite) upgrade(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, "echo 'log-level: debug' >> /etc/criadapter/config.yaml"); err != nil {
		return err
	}
	stop := s.asking(ctx, ownSocket)
	_, err := s.machine.Shell(ctx, `
		dpkg --install `+s.deb(newVersion, "kubelet-core")+`
		systemctl is-active `+ownUnits+`
		dpkg --install `+s.deb(newVersion, "criadapter")+`
		systemctl is-active kubelet-core `+ownUnits+`
		systemctl show --property StatusText --value kubelet-core | grep -x '2 pods'
		kubelet-core --version | grep -x 'kubelet-core version v`+newVersion+`'
		kubelet-core check
		grep -q 'log-level: debug' /etc/criadapter/config.yaml`)
	if err == nil {
		err = s.serves(ctx, ownSocket, newVersion)
	}
	asked, failed := stop()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if asked < 3 {
		return fmt.Errorf("only %d requests were made meanwhile", asked)
	}
	if err := s.untouched(ctx); err != nil {
		return err
	}
	return s.ready(ctx, "web", "agent")
}

// takeNames installs the package criadapter-cri-docker while pods run.
func (s *suite) takeNames(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, `
		dpkg --install `+s.deb(newVersion, "criadapter-cri-docker")+`
		systemctl is-enabled `+dropInUnits+`
		systemctl is-active `+dropInUnits+`
		not systemctl is-enabled criadapter.service
		not systemctl is-active criadapter.service
		not systemctl is-active criadapter.socket
		test "$(dpkg-query --show --showformat '${Conflicts} ${Replaces} ${Provides}' criadapter-cri-docker)" = 'cri-dockerd cri-dockerd cri-dockerd'
		cri-dockerd --version`); err != nil {
		return err
	}
	if err := s.serves(ctx, dropInSocket, newVersion); err != nil {
		return err
	}
	// The commands find the server at its other socket.
	if _, err := s.machine.Shell(ctx, `
		criadapter status | grep ' on unix:///run/cri-dockerd.sock'
		criadapter check > /run/check.txt || true
		grep 'criadapter .* answers on /run/cri-dockerd.sock' /run/check.txt
		not grep 'criadapter .* answers on unix:' /run/check.txt
		criadapter debug bundle --file /run/names.tar.gz
		tar -xzOf /run/names.tar.gz --wildcards '*/log.txt' | grep 'msg="serving CRI"'`); err != nil {
		return err
	}
	// An upgrade of the program restarts the service that runs it, and no other.
	if _, err := s.machine.Shell(ctx, `
		before=$(systemctl show --property MainPID --value cri-docker)
		dpkg --install `+s.deb(newVersion, "criadapter")+`
		not test "$(systemctl show --property MainPID --value cri-docker)" = "$before"
		not systemctl is-active criadapter.service
		not systemctl is-active criadapter.socket`); err != nil {
		return err
	}
	return errors.Join(s.serves(ctx, dropInSocket, newVersion), s.untouched(ctx))
}

// minikube runs the commands of minikube v1.3x that switch its node to Docker with a CRI, see
// pkg/minikube/cruntime/docker.go. It leaves out the restart of Docker, which ends containers.
func (s *suite) minikube(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, `
		which cri-dockerd
		which dockerd
		cri-dockerd --version
		mkdir -p /etc/systemd/system/cri-docker.service.d
		printf '%s\n' '[Service]' 'ExecStart=' "ExecStart=$(which cri-dockerd) --container-runtime-endpoint fd:// --pod-infra-container-image=`+debian.PodImage+` --network-plugin=cni --hairpin-mode=hairpin-veth" > /etc/systemd/system/cri-docker.service.d/10-cni.conf
		printf 'runtime-endpoint: unix:///var/run/cri-dockerd.sock\n' > /etc/crictl.yaml
		systemctl is-active --quiet service cri-docker.socket
		systemctl stop cri-docker.socket
		systemctl stop cri-docker.service
		systemctl unmask cri-docker.socket
		systemctl enable cri-docker.socket
		systemctl daemon-reload
		systemctl restart cri-docker.socket
		systemctl restart cri-docker.service
		stat /var/run/cri-dockerd.sock
		/mnt/crictl version
		/mnt/crictl images --output json
		/mnt/crictl ps -a --quiet
		systemctl cat cri-docker --no-pager
		systemctl status cri-docker --all --full --no-pager
		systemctl disable cri-docker.socket
		systemctl mask cri-docker.service
		systemctl unmask cri-docker.service
		systemctl enable cri-docker.socket
		rm -r /etc/systemd/system/cri-docker.service.d
		systemctl daemon-reload
		systemctl restart cri-docker.service`); err != nil {
		return err
	}
	return errors.Join(s.serves(ctx, dropInSocket, newVersion), s.untouched(ctx))
}

// kubeadm looks for the socket as kubeadm does (cmd/kubeadm/app/util/runtime): at cri-dockerd's path, with a CRI status
// as answer. It also starts cri-dockerd with the command lines that users have in their units.
func (s *suite) kubeadm(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, `
		test -S /var/run/cri-dockerd.sock
		/mnt/crictl --runtime-endpoint unix:///var/run/cri-dockerd.sock info
		/mnt/crictl --runtime-endpoint unix:///var/run/cri-dockerd.sock info --output go-template --template '{{range .status.conditions}}{{.type}}={{.status}} {{end}}' | grep 'RuntimeReady=true NetworkReady=true'`); err != nil {
		return err
	}
	for _, line := range []string{
		"",
		"--network-plugin=",
		"--network-plugin=cni",
		"--container-runtime-endpoint unix:///var/run/cri-dockerd.sock --network-plugin=cni",
		"--network-plugin=cni --cni-bin-dir=/opt/cni/bin --cni-cache-dir=/var/lib/cni/cache " +
			"--cni-conf-dir=/etc/cni/net.d --pod-infra-container-image=" + debian.PodImage,
	} {
		if err := s.standalone(ctx, line); err != nil {
			return fmt.Errorf("cri-dockerd %s: %w", line, err)
		}
	}
	return s.untouched(ctx)
}

// standalone runs cri-dockerd in a service without a socket unit.
func (s *suite) standalone(ctx context.Context, flags string) error {
	if _, err := s.machine.Shell(ctx, `
		systemctl stop `+dropInUnits+`
		systemd-run --unit standalone --service-type notify cri-dockerd `+flags+`
		/mnt/crictl --runtime-endpoint unix:///var/run/cri-dockerd.sock version
		systemctl stop standalone
		systemctl start `+dropInUnits); err != nil {
		return err
	}
	return s.serves(ctx, dropInSocket, newVersion)
}

// dropNames removes the package criadapter-cri-docker: criadapter serves under its own names again.
func (s *suite) dropNames(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, `
		dpkg --purge criadapter-cri-docker
		systemctl is-enabled `+ownUnits+`
		systemctl is-active `+ownUnits+`
		not test -e /usr/bin/cri-dockerd
		not test -e `+dropInSocket); err != nil {
		return err
	}
	return errors.Join(s.serves(ctx, ownSocket, newVersion), s.untouched(ctx))
}

// removeAndComeBack removes the packages and installs them again. The removal must end no container. The services must
// then serve the same pods.
func (s *suite) removeAndComeBack(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, `
		dpkg --remove kubelet-core criadapter
		not systemctl is-active kubelet-core.service
		not test -e /usr/bin/kubelet-core
		test -e /etc/kubelet-core/config.yaml
		test -e /etc/kubelet-core/manifests/web.yaml
		not systemctl is-active criadapter.service
		not systemctl is-active criadapter.socket
		not test -e /usr/bin/criadapter
		not test -e /usr/lib/systemd/system/criadapter.service
		test -e /etc/criadapter/config.yaml
		test -d /var/lib/criadapter`); err != nil {
		return err
	}
	if err := s.untouched(ctx); err != nil {
		return err
	}
	if _, err := s.machine.Shell(ctx, `
		dpkg --install `+s.deb(newVersion, "criadapter")+" "+s.deb(newVersion, "kubelet-core")+`
		grep -q 'log-level: debug' /etc/criadapter/config.yaml
		systemctl is-enabled kubelet-core
		systemctl is-active kubelet-core`); err != nil {
		return err
	}
	if err := s.serves(ctx, ownSocket, newVersion); err != nil {
		return err
	}
	if err := s.eventually(ctx, func() error { return s.ready(ctx, "web", "agent") }); err != nil {
		return err
	}
	return s.untouched(ctx)
}

// purge removes the manifests, waits until the kubelet core has removed the pods, and purges the packages with their
// state.
func (s *suite) purge(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, "rm /etc/kubelet-core/manifests/*.yaml"); err != nil {
		return err
	}
	if err := s.eventually(ctx, func() error {
		left, err := s.containers(ctx)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d containers are left", len(left))
		}
		return err
	}); err != nil {
		return err
	}
	began := time.Now()
	if _, err := s.machine.Shell(ctx, `
		dpkg --purge kubelet-core criadapter
		not test -e /etc/kubelet-core
		not test -e /var/lib/kubelet-core
		not test -e /etc/systemd/system/multi-user.target.wants/kubelet-core.service
		not test -e /etc/criadapter
		not test -e /var/lib/criadapter
		not test -e /usr/share/criadapter
		not test -e /etc/systemd/system/multi-user.target.wants/criadapter.service
		not test -e /etc/systemd/system/sockets.target.wants/criadapter.socket
		not dpkg-query --show criadapter
		test -z "$(ls -A /var/lib/cni/networks/pods 2>/dev/null | grep -v -e lock -e last_reserved)"`); err != nil {
		return fmt.Errorf("after %v: %w", time.Since(began), err)
	}
	return nil
}
