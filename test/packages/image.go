package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/criadapter/criadapter/test/debian"
)

// runImage is the command of the Dockerfile's comment. It has another root directory, so that the server of the deb
// keeps running.
const runImage = `docker run --detach --name criadapter \
	--privileged --pid host --network host --cgroupns host \
	--volume /var/run/docker.sock:/var/run/docker.sock \
	--volume /var/lib/docker:/var/lib/docker:rslave \
	--volume /run/image:/run/image \
	--volume /run/criadapter:/run/criadapter:rshared \
	--volume /var/lib/image:/var/lib/image \
	--volume /run/netns:/run/netns:rshared \
	--volume /etc/cni/net.d:/etc/cni/net.d:ro \
	--volume /opt/cni/bin:/opt/cni/bin:ro \
	--volume /var/lib/cni:/var/lib/cni \
	--volume /var/log/pods:/var/log/pods \
	--volume /var/lib/kubelet:/var/lib/kubelet:rshared \
	criadapter:` + newVersion + ` --root-directory /var/lib/image --container-runtime-endpoint unix:///run/image/cri.sock`

// image loads the images into the engine from their archives. criadapter's image runs a pod, and the kubelet core's
// image prints its version.
func (s *suite) image(ctx context.Context) error {
	archive := "/mnt/" + newVersion + "/criadapter_" + newVersion + "_linux_" + architecture + ".image.tar"
	if _, err := s.machine.Shell(ctx, `
		docker load --quiet --input `+archive+`
		mkdir -p /run/netns /run/image /var/lib/image /var/log/pods /var/lib/kubelet /var/lib/cni
		for shared in /run/netns /run/criadapter; do
			mountpoint -q $shared || { mount --rbind $shared $shared && mount --make-shared $shared; }
		done
		`+runImage); err != nil {
		return err
	}
	const crictl = "/mnt/crictl --runtime-endpoint unix:///run/image/cri.sock "
	if err := s.eventually(ctx, func() error {
		_, err := s.machine.Shell(ctx, crictl+"version")
		return err
	}); err != nil {
		log, _ := s.machine.Run(ctx, "docker", "logs", "criadapter") // part of an error's text only
		return fmt.Errorf("%w\n%s", err, log)
	}
	_, err := s.machine.Shell(ctx, `
		echo '{"metadata": {"name": "image", "namespace": "default", "uid": "1", "attempt": 0}, "log_directory": "/var/log/pods/image", "linux": {}}' > /run/pod.json
		echo '{"metadata": {"name": "hello", "attempt": 0}, "image": {"image": "`+debian.PodImage+`"}, "log_path": "hello.log", "linux": {}}' > /run/container.json
		`+crictl+`run --no-pull /run/container.json /run/pod.json 2>/dev/null ||
			`+crictl+`run /run/container.json /run/pod.json
		`+crictl+`ps | grep Running
		address=$(`+crictl+`inspectp --output go-template --template '{{.status.network.ip}}' $(`+crictl+`pods --quiet))
		ip route get $address | grep cni0
		for try in $(seq 60); do grep -q . /var/log/pods/image/hello.log && break; sleep 1; done
		grep -q . /var/log/pods/image/hello.log`)
	core := "/mnt/" + newVersion + "/kubelet-core_" + newVersion + "_linux_" + architecture + ".image.tar"
	_, coreErr := s.machine.Shell(ctx, `
		docker load --quiet --input `+core+`
		docker run --rm kubelet-core:`+newVersion+` --version | grep -x 'kubelet-core version v`+newVersion+`'
		docker rmi kubelet-core:`+newVersion)
	_, undo := s.machine.Shell(ctx,
		crictl+`rmp --force --all; docker rm --force criadapter; docker rmi criadapter:`+newVersion)
	return errors.Join(err, coreErr, undo, s.untouched(ctx))
}
