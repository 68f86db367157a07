package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/criadapter/criadapter/test/inside"
	"github.com/criadapter/criadapter/test/vm/node"
)

// confinedPod is the manifest of a pod. Its arguments are the pod's name and the fields of the container's security
// context.
const confinedPod = `apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default}
spec:
  containers:
    - {name: main, image: "` + node.ShellImage + `", imagePullPolicy: Never, command: [sleep, "86400"],
        securityContext: {%s}}
`

// confined are the security contexts of the pods that commands compares, by their names.
func confined() map[string]string {
	const user = "runAsUser: 1000, runAsGroup: 3000"
	return map[string]string{
		"plain": "",
		"user":  user,
		"restricted": user + ", allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, " +
			"capabilities: {drop: [ALL]}",
		"seccomp":    "seccompProfile: {type: RuntimeDefault}",
		"unconfined": "seccompProfile: {type: Unconfined}, appArmorProfile: {type: Unconfined}",
		"privileged": "privileged: true",
	}
}

// commands compares commands that runc runs without the engine with commands that the engine runs. The server is the
// installed service, so a command would show what it inherits from the unit.
func (s *suite) commands(ctx context.Context) error {
	if err := s.startNode(ctx); err != nil {
		return err
	}
	for name, fields := range confined() {
		const write = `printf %s "$0" > /etc/kubelet-core/manifests/$1.yaml`
		if _, err := s.machine.Run(ctx, "sh", "-c", write, fmt.Sprintf(confinedPod, name, fields), name); err != nil {
			return err
		}
	}
	runtime, err := s.views(ctx, "false")
	if err != nil {
		return err
	}
	status, err := s.machine.Run(ctx, "criadapter", "status")
	if err != nil {
		return err
	}
	fmt.Println(strings.TrimSpace(regexp.MustCompile(`(?m)^ *commands.*$`).FindString(status)))
	want := fmt.Sprintf("%d straight to the OCI runtime", len(confined()))
	if !strings.Contains(status, want) || !strings.Contains(status, " 0 through the engine") {
		return fmt.Errorf("want %s, and 0 through the engine", want)
	}
	engine, err := s.views(ctx, "true")
	if err != nil {
		return err
	}
	var errs []error
	for name := range confined() {
		found := inside.Differences(runtime[name], engine[name])
		fmt.Printf("%s: %d facts, %d differ\n", name, strings.Count(runtime[name], "\n"), len(found))
		for _, line := range found {
			errs = append(errs, fmt.Errorf("%s: %s", name, line))
		}
	}
	return errors.Join(errs...)
}

// views restarts the server with a value of exec-through-engine and returns what a command sees in each pod.
func (s *suite) views(ctx context.Context, throughEngine string) (map[string]string, error) {
	_, err := s.machine.Shell(ctx, `
		mkdir -p /etc/criadapter
		echo 'exec-through-engine: `+throughEngine+`' > /etc/criadapter/config.yaml
		systemctl restart criadapter`)
	if err != nil {
		return nil, err
	}
	seen := map[string]string{}
	for name := range confined() {
		id, err := s.containerOf(ctx, name)
		if err != nil {
			return nil, err
		}
		seen[name], err = s.machine.Run(ctx, "crictl", "exec", "--sync", id, "sh", "-c", inside.View)
		if err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// containerOf waits for the running container of a pod and returns its id.
func (s *suite) containerOf(ctx context.Context, pod string) (id string, err error) {
	err = s.eventually(ctx, func() error {
		// The kubelet core adds the node's name to the pod's.
		label := "io.kubernetes.pod.name=" + pod + "-node"
		id, err = s.machine.Run(ctx, "crictl", "ps", "--quiet", "--state", "running", "--label", label)
		if err == nil && id == "" {
			err = fmt.Errorf("pod %s has no container yet", pod)
		}
		return err
	})
	return id, err
}
