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

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// podUID makes the pod's names in the engine this program's own.
const podUID = "criadapter-run"

// client is a CRI client that can do what this program shows.
type client struct {
	conn    *grpc.ClientConn
	runtime runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient

	sandbox    string
	containers map[string]string // id by name
	logDir     string
}

// dial waits until the server answers.
func dial(ctx context.Context, socket string) (*client, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, runtime: runtimeapi.NewRuntimeServiceClient(conn), images: runtimeapi.NewImageServiceClient(conn)}
	if err := c.waitReady(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *client) close() { c.conn.Close() }

// waitReady asks Status until both the runtime and the network are ready.
func (c *client) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	why := "it did not answer"
	for {
		status, err := c.runtime.Status(ctx, &runtimeapi.StatusRequest{}, grpc.WaitForReady(true))
		if err == nil {
			if why = notReady(status.GetStatus()); why == "" {
				return nil
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %s", why)
		}
	}
}

func notReady(status *runtimeapi.RuntimeStatus) string {
	for _, condition := range status.GetConditions() {
		if !condition.GetStatus() {
			return fmt.Sprintf("%s: %s", condition.GetType(), condition.GetMessage())
		}
	}
	return ""
}

// runPod brings the pod up the way a kubelet does.
func (c *client) runPod(ctx context.Context, pod *manifest, logDir string) error {
	c.logDir = logDir
	config, err := pod.sandbox(podUID, logDir)
	if err != nil {
		return err
	}
	began := time.Now()
	sandbox, err := c.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		return fmt.Errorf("RunPodSandbox: %w", err)
	}
	c.sandbox, c.containers = sandbox.GetPodSandboxId(), map[string]string{}
	for _, spec := range pod.Spec.Containers {
		if err := c.runContainer(ctx, spec, config); err != nil {
			return fmt.Errorf("container %s: %w", spec.Name, err)
		}
	}
	step("Pod %s/%s is up after %s", pod.Metadata.Namespace, pod.Metadata.Name, time.Since(began).Round(time.Millisecond))
	return nil
}

func (c *client) runContainer(ctx context.Context, spec container, sandbox *runtimeapi.PodSandboxConfig) error {
	imageID, err := c.image(ctx, spec)
	if err != nil {
		return err
	}
	config, err := spec.config(imageID)
	if err != nil {
		return err
	}
	created, err := c.runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: c.sandbox, Config: config, SandboxConfig: sandbox,
	})
	if err != nil {
		return fmt.Errorf("CreateContainer: %w", err)
	}
	c.containers[spec.Name] = created.GetContainerId()
	if _, err := c.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: created.GetContainerId()}); err != nil {
		return fmt.Errorf("StartContainer: %w", err)
	}
	return nil
}

// image returns the id of the container's image, pulled where its policy says
// so.
func (c *client) image(ctx context.Context, spec container) (string, error) {
	status, err := c.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: spec.Image}})
	if err != nil {
		return "", fmt.Errorf("ImageStatus: %w", err)
	}
	present := status.GetImage() != nil
	switch {
	case present && spec.ImagePullPolicy != "Always":
		return status.GetImage().GetId(), nil
	case spec.ImagePullPolicy == "Never":
		return "", fmt.Errorf("image %s is not there and its pull policy is Never", spec.Image)
	}
	step("Pulling %s", spec.Image)
	pulled, err := c.images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: spec.Image}})
	if err != nil {
		return "", fmt.Errorf("PullImage: %w", err)
	}
	return pulled.GetImageRef(), nil
}

// show prints what a newcomer wants to see of the pod: address, state, answer,
// log.
func (c *client) show(ctx context.Context, pod *manifest) error {
	status, err := c.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: c.sandbox})
	if err != nil {
		return fmt.Errorf("PodSandboxStatus: %w", err)
	}
	ip := status.GetStatus().GetNetwork().GetIp()
	fmt.Printf("    sandbox    %.13s  %s  address %s\n", c.sandbox, status.GetStatus().GetState(), ip)
	for _, spec := range pod.Spec.Containers {
		if err := c.showContainer(ctx, spec, ip); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) showContainer(ctx context.Context, spec container, ip string) error {
	id := c.containers[spec.Name]
	status, err := c.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return fmt.Errorf("ContainerStatus: %w", err)
	}
	fmt.Printf("    container  %.13s  %s  %s\n", id, status.GetStatus().GetState(), spec.Name)
	if status.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return fmt.Errorf("container %s does not run: %s %s", spec.Name, status.GetStatus().GetReason(), status.GetStatus().GetMessage())
	}
	for _, port := range spec.Ports {
		if ip == "" || (port.Protocol != "" && !strings.EqualFold(port.Protocol, "TCP")) {
			continue
		}
		address := net.JoinHostPort(ip, strconv.Itoa(int(port.ContainerPort)))
		answer, err := ask(ctx, "http://"+address)
		if err != nil {
			return err
		}
		fmt.Printf("    http://%s answers: %s\n", address, answer)
	}
	lines, err := firstLines(ctx, filepath.Join(c.logDir, spec.Name, "0.log"))
	if err != nil {
		return err
	}
	fmt.Printf("    log of %s in the CRI format:\n", spec.Name)
	for _, line := range lines {
		fmt.Printf("      %s\n", line)
	}
	return nil
}

// ask gets one page, trying until the service listens.
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
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
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
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("no %d lines in %s", wanted, path)
		}
	}
}

// removePod stops and removes what runPod has made.
func (c *client) removePod(ctx context.Context, pod *manifest) error {
	if c.sandbox == "" {
		return nil
	}
	for _, id := range c.containers {
		if _, err := c.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 5}); err != nil {
			return fmt.Errorf("StopContainer: %w", err)
		}
	}
	if _, err := c.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: c.sandbox}); err != nil {
		return fmt.Errorf("StopPodSandbox: %w", err)
	}
	if _, err := c.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: c.sandbox}); err != nil {
		return fmt.Errorf("RemovePodSandbox: %w", err)
	}
	step("Pod %s/%s is removed", pod.Metadata.Namespace, pod.Metadata.Name)
	return nil
}
