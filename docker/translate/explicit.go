package translate

import (
	"slices"
	"strings"

	"github.com/criadapter/criadapter/docker"
	"github.com/moby/moby/api/types/container"
)

// shmSize is the size of /dev/shm in bytes: the engine's usual default, named
// so that default-shm-size of daemon.json does not change it.
const shmSize = 64 << 20

// legacyHandler is the runtime handler under which dockershim and cri-dockerd
// offer the engine's default runtime.
const legacyHandler = "docker"

// explicitConfig returns a container's configuration with all that an image
// could choose and CRI has no say in.
func explicitConfig(image string, labels map[string]string) *container.Config {
	return &container.Config{
		Image:  image,
		Labels: labels,
		// CRI has probes of its own; a HEALTHCHECK of the image must not run.
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
}

// explicitHost returns a container's host configuration with all that
// daemon.json could choose. The caller adds namespaces, security and limits.
func explicitHost(f docker.Features, runtime string) *container.HostConfig {
	return &container.HostConfig{
		Runtime:       runtime,
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		// Otherwise userns-remap applies, which forbids privileged containers
		// and the host's namespaces.
		UsernsMode: modeHost,
		Init:       new(bool),
		ShmSize:    shmSize,
		Resources: container.Resources{
			OomKillDisable: new(bool),
			Ulimits:        ulimits(f),
		},
	}
}

// ulimits are the limits that the engine's and containerd's own units give
// their containers. The engine fills in those of default-ulimits of daemon.json
// whose names are not given, so these three it cannot change; the others are
// left to the node's administrator, who has no other place for them.
//
// Without CAP_SYS_RESOURCE, whose absence NegativeOOMScore tells, the engine
// cannot raise a limit above its own: then containers inherit.
func ulimits(f docker.Features) []*container.Ulimit {
	if !f.NegativeOOMScore {
		return []*container.Ulimit{}
	}
	const maxOpenFiles = 1 << 20 // fs.nr_open's default, more would fail
	return []*container.Ulimit{
		{Name: "core", Soft: unlimited, Hard: unlimited},
		{Name: "nofile", Soft: maxOpenFiles, Hard: maxOpenFiles},
		{Name: "nproc", Soft: unlimited, Hard: unlimited},
	}
}

// runtimeName returns the engine's OCI runtime for a CRI runtime handler.
func runtimeName(field, handler string, f docker.Features) (string, error) {
	switch {
	case handler == "":
		return f.DefaultRuntime, nil
	case slices.Contains(f.Runtimes, handler):
		return handler, nil
	case handler == legacyHandler:
		return f.DefaultRuntime, nil
	default:
		return "", invalid(field, "the engine has no runtime %q, it has %s", handler, strings.Join(f.Runtimes, ", "))
	}
}
