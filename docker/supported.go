package docker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
)

// checkEngine refuses engines that cannot run pods of this node. criadapter opens namespaces by PIDs of the engine,
// reads container logs below the engine's root and mounts its own files into containers. So engine and criadapter must
// see the same processes and files.
func checkEngine(ctx context.Context, api *client.Client, f facts, features Features) error {
	if err := checkKind(f, features); err != nil {
		return err
	}
	if err := checkDaemonJSON(f, features); err != nil {
		return err
	}
	if err := checkVisible(f.peer, features.Root); err != nil {
		return err
	}
	return checkRunning(ctx, api, features.Root)
}

// checkKind refuses engines by their own description.
func checkKind(f facts, features Features) error {
	switch {
	case features.OS != "linux":
		return refusal("the engine runs on %q: pods need Docker Engine on Linux", features.OS)
	case isPodman(f.version):
		return podmanRefusal()
	case f.info.OperatingSystem == "Docker Desktop" || strings.Contains(f.info.KernelVersion, "linuxkit"):
		return refusal(
			"the engine is Docker Desktop, which runs in a virtual machine of its own, where its processes " +
				"and files are out of reach; install Docker Engine on the node itself")
	case features.rootless:
		return refusal("the engine is rootless: its containers live in a user's namespaces and cannot share the " +
			"node's network, cgroups and devices; run dockerd as root")
	case features.userNSRemap:
		return refusal("the engine remaps user ids (userns-remap): containers could not share the node's " +
			"namespaces, nor read volumes that the kubelet made; remove userns-remap from daemon.json")
	}
	return nil
}

func podmanRefusal() error {
	return refusal("the socket is Podman's: its Docker API lacks what pods need; install Docker Engine")
}

func isPodman(version client.ServerVersionResult) bool {
	return slices.ContainsFunc(version.Components, func(c system.ComponentVersion) bool {
		return c.Name == "Podman Engine"
	})
}

// checkVisible refuses an engine whose process or root is not visible here.
func checkVisible(peer int, root string) error {
	if peer == 0 {
		return refusal("the engine's process is outside this PID namespace, so containers' namespaces cannot be " +
			"opened; run criadapter on the host, or in a container with --pid=host")
	}
	if stat, err := os.Stat(root); err != nil || !stat.IsDir() {
		return refusal("the engine's data root %s is not visible here as a directory, so container logs and images "+
			"cannot be read; run criadapter on the engine's machine, or mount the directory at the same path", root)
	}
	return nil
}

// maxLooks bounds how many running containers checkRunning looks for.
const maxLooks = 8

// checkRunning recognises an engine of another machine whose socket is forwarded to this machine: its running
// containers have no process or directory here. One container that has both here, or that may have ended, suffices to
// accept the engine. Docker can list a container as running for days after its process has ended, if Docker has missed
// the end. checkRunning accepts an engine without running containers.
func checkRunning(ctx context.Context, api *client.Client, root string) error {
	// Without the filter, a limit also lists ended containers.
	list, err := api.ContainerList(ctx, client.ContainerListOptions{
		Limit: maxLooks, Filters: make(client.Filters).Add("status", "running")})
	if err != nil || len(list.Items) == 0 {
		return err
	}
	for _, item := range list.Items {
		if foreign, err := isForeign(ctx, api, root, item.ID); err != nil || !foreign {
			return err
		}
	}
	return refusal("the engine's container %.12s has no process or directory here, so the engine runs on another "+
		"machine: run criadapter on that machine. If the engine runs here, it has missed the container's end: "+
		"restart the engine",
		list.Items[0].ID)
}

// isForeign reports whether a listed container runs and has no process or directory here.
func isForeign(ctx context.Context, api *client.Client, root, id string) (bool, error) {
	for range 2 { // the container may end between the inspect and checkOurs
		inspected, err := api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		if hasType(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		state := inspected.Container.State
		if state == nil || !state.Running {
			return false, nil
		}
		if err := checkOurs(root, id, state.Pid); !errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
	}
	return true, nil
}

// checkOurs fails with os.ErrNotExist if a running container has no process or no directory on this machine.
func checkOurs(root, id string, pid int) error {
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid))); err != nil {
		return err
	}
	_, err := os.Stat(filepath.Join(root, "containers", id))
	return err
}
