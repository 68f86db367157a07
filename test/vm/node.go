package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/vm/machine"
	"github.com/criadapter/criadapter/test/vm/node"
)

// settleTime bounds the time until the node's pods are as they should be.
const settleTime = 15 * time.Minute

// shellPod is the manifest of a pod that runs a shell line. Its arguments are the pod's name, restart policy and line.
const shellPod = `apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default}
spec:
  restartPolicy: %s
  terminationGracePeriodSeconds: 2
  containers:
    - {name: shell, image: "` + node.ShellImage + `", imagePullPolicy: Never, command: [sh, -c, %q]}
`

// manifest is a pod of the node, with its expected phases.
type manifest struct {
	name, policy, line string
	// first and booted are its phases once it has started, and after a boot that ended its container.
	first, booted v1.PodPhase
}

// manifests are pods of all restart policies. The share has two more, web and agent, which run for ever.
func manifests() []manifest {
	const forever = "trap 'exit 1' TERM; while :; do sleep 1; done"
	return []manifest{
		{"done", "Never", "echo done", v1.PodSucceeded, v1.PodSucceeded},
		{"task", "Never", forever, v1.PodRunning, v1.PodFailed},
		{"retry", "OnFailure", forever, v1.PodRunning, v1.PodRunning},
	}
}

// phases are the phases of all pods, before or after a boot.
func phases(of func(manifest) v1.PodPhase) map[string]v1.PodPhase {
	wanted := map[string]v1.PodPhase{"web": v1.PodRunning, "agent": v1.PodRunning}
	for _, m := range manifests() {
		wanted[m.name] = of(m)
	}
	return wanted
}

// startNode runs the kubelet core as a service, with the pods of the share.
func (s *suite) startNode(ctx context.Context) error {
	_, err := s.machine.Shell(ctx, `
		docker load --quiet --input /mnt/hello.tar
		docker load --quiet --input /mnt/shell.tar
		cp /mnt/web.yaml /mnt/agent.yaml /etc/kubelet-core/manifests
		echo 'KUBELET_CORE_ARGS="--node-ip `+machine.Address+`"' > /etc/default/kubelet-core
		systemctl restart kubelet-core
		sync`)
	return err
}

// addManifests adds pods of all restart policies.
func (s *suite) addManifests(ctx context.Context) error {
	for _, m := range manifests() {
		text := fmt.Sprintf(shellPod, m.name, m.policy, m.line)
		const write = `printf %s "$0" > /etc/kubelet-core/manifests/$1.yaml`
		if _, err := s.machine.Run(ctx, "sh", "-c", write, text, m.name); err != nil {
			return err
		}
	}
	_, err := s.machine.Run(ctx, "sync")
	return err
}

// pods returns the pods of the kubelet core.
func (s *suite) pods(ctx context.Context) ([]v1.Pod, error) {
	text, err := s.machine.Run(ctx, "sh", "-c", "kubelet-core get pods --output json 2>/dev/null")
	if err != nil {
		return nil, err
	}
	var list v1.PodList
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("%w in %s", err, text)
	}
	return list.Items, nil
}

// awaitPods waits until the kubelet core has exactly these pods, in these phases, and the running ones are ready.
func (s *suite) awaitPods(ctx context.Context, wanted map[string]v1.PodPhase) error {
	return s.eventually(ctx, func() error {
		pods, err := s.pods(ctx)
		if err != nil {
			return err
		}
		found := map[string]v1.PodPhase{}
		var errs []error
		for _, pod := range pods {
			name := strings.TrimSuffix(pod.Name, "-node") // the kubelet core may append the node's name
			found[name] = pod.Status.Phase
			if pod.Status.Phase == v1.PodRunning && !model.Ready(&pod) {
				errs = append(errs, fmt.Errorf("pod %s is not ready", name))
			}
		}
		if !maps.Equal(found, wanted) {
			errs = append(errs, fmt.Errorf("the pods are %v, want %v", found, wanted))
		}
		return errors.Join(errs...)
	})
}

//go:embed audit.sh
var auditScript string

// audit waits until the node has what its pods need and nothing else. Each line in the engine's log of a container must
// also be in the container's CRI log.
func (s *suite) audit(ctx context.Context) error {
	return s.eventually(ctx, func() error {
		_, err := s.machine.Run(ctx, "bash", "-c", auditScript)
		return err
	})
}

func (s *suite) eventually(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	return debian.Wait(ctx, check)
}

// journal is the end of the node's log, for the text of an error.
func (s *suite) journal(ctx context.Context) string {
	text, err := s.machine.Run(ctx, "journalctl", "--no-pager", "-b", "-n", "80", "-u", "criadapter",
		"-u", "kubelet-core", "-u", "docker")
	if err != nil {
		return err.Error()
	}
	return text
}
