package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/kubelet/model"
)

// show prints the pod's address, state, answer and log.
func (k *kubeletCore) show(ctx context.Context, pod *v1.Pod) error {
	sandboxes, err := k.runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{model.LabelPodUID: string(pod.UID)},
	})
	if err != nil {
		return err
	}
	for _, sandbox := range sandboxes {
		fmt.Printf("    sandbox    %.13s  %s  address %s\n", sandbox.GetId(), sandbox.GetState(), pod.Status.PodIP)
	}
	for i := range pod.Spec.Containers {
		if err := k.showContainer(ctx, pod, &pod.Spec.Containers[i], pod.Status.ContainerStatuses[i]); err != nil {
			return err
		}
	}
	return nil
}

func (k *kubeletCore) showContainer(ctx context.Context, pod *v1.Pod, spec *v1.Container,
	status v1.ContainerStatus) error {
	_, id, _ := strings.Cut(status.ContainerID, "://")
	answer, err := k.runtime.ContainerStatus(ctx, id, false)
	if err != nil {
		return err
	}
	fmt.Printf("    container  %.13s  %s  %s\n", id, answer.GetStatus().GetState(), spec.Name)
	for _, port := range spec.Ports {
		if pod.Status.PodIP == "" || port.Protocol != v1.ProtocolTCP {
			continue
		}
		address := net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port.ContainerPort)))
		answer, err := ask(ctx, "http://"+address)
		if err != nil {
			return err
		}
		fmt.Printf("    http://%s answers: %s\n", address, answer)
	}
	lines, err := firstLines(ctx, filepath.Join(model.PodLogDirectory(k.logs, pod),
		model.ContainerLogPath(spec.Name, uint32(status.RestartCount))))
	if err != nil {
		return err
	}
	fmt.Printf("    log of %s in the CRI format:\n", spec.Name)
	for _, line := range lines {
		fmt.Printf("      %s\n", line)
	}
	return nil
}

// ask gets one page, and repeats the request until the service listens.
func ask(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return "", err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			defer response.Body.Close()
			body, err := io.ReadAll(io.LimitReader(response.Body, 200))
			return strings.TrimSpace(string(body)), err
		}
		if pace.Sleep(ctx, 50*time.Millisecond) != nil {
			return "", fmt.Errorf("the pod does not answer on %s: %w", url, err)
		}
	}
}

// firstLines waits for the first lines of a log.
func firstLines(ctx context.Context, path string) ([]string, error) {
	const wanted = 4
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		content, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if lines := strings.SplitAfterN(string(content), "\n", wanted+1); len(lines) > wanted {
			for i := range lines {
				lines[i] = strings.TrimSuffix(lines[i], "\n")
			}
			return lines[:wanted], nil
		}
		if pace.Sleep(ctx, 50*time.Millisecond) != nil {
			return nil, fmt.Errorf("fewer than %d lines in %s", wanted, path)
		}
	}
}
