package translate

import (
	"cmp"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
)

// shmSize is the size of /dev/shm in bytes, which is the engine's usual default. It is set so that default-shm-size of
// daemon.json has no effect.
const shmSize = 64 << 20

// maxOpenFiles is the kernel's default of fs.nr_open.
const maxOpenFiles = 1 << 20

// explicitConfig returns a container's configuration. It overrides each setting of the image for which CRI has no
// field.
func explicitConfig(image string, labels map[string]string) *container.Config {
	return &container.Config{
		Image:  image,
		Labels: labels,
		// CRI has probes of its own, so a HEALTHCHECK of the image must not run.
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
}

// explicitHost returns a container's host configuration. It sets every field that has a default in daemon.json. The
// caller adds namespaces, security and limits.
func explicitHost(f docker.Features, runtime string) *container.HostConfig {
	return &container.HostConfig{
		Runtime:       runtime,
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		// Without this mode, userns-remap applies, which forbids privileged containers and the host's namespaces.
		UsernsMode: modeHost,
		Init:       new(bool),
		ShmSize:    shmSize,
		Resources: container.Resources{
			OomKillDisable: new(bool),
			Ulimits:        ulimits(f),
		},
	}
}

// ulimits returns every limit, because the engine takes missing limits from default-ulimits of daemon.json. A container
// gets the limits that it would inherit: the limits of the engine's own process.
//
// Three limits have other values. Processes and core files are unlimited, as in the systemd units of Docker and
// containerd. The limit of open files is maxOpenFiles, which is low enough for programs that loop over all possible
// descriptors. It is less if the node's administrator has lowered fs.nr_open: the kernel refuses a higher limit.
// NegativeOOMScore shows whether the engine has CAP_SYS_RESOURCE. Without this capability, no hard limit can be above
// the engine's own.
func ulimits(f docker.Features) []*container.Ulimit {
	out := make([]*container.Ulimit, 0, len(f.Limits))
	for _, limit := range f.Limits {
		soft, hard := limit.Soft, limit.Hard
		switch limit.Name {
		case "core", "nproc":
			soft, hard = raised(docker.Unlimited, hard, f)
		case "nofile":
			soft, hard = raised(min(maxOpenFiles, cmp.Or(f.MaxOpenFiles, maxOpenFiles)), hard, f)
		}
		out = append(out, &container.Ulimit{Name: limit.Name, Soft: soft, Hard: hard})
	}
	return out
}

// raised returns the soft and the hard limit nearest to want that the engine's own hard limit allows.
func raised(want, hard int64, f docker.Features) (int64, int64) {
	if f.NegativeOOMScore || hard == docker.Unlimited || want != docker.Unlimited && want < hard {
		return want, want
	}
	return hard, hard
}

// runtimeName returns the engine's OCI runtime for a CRI runtime handler.
func runtimeName(field, handler string, f docker.Features) (string, error) {
	runtime, ok := f.Runtime(handler)
	if !ok {
		return "", invalid(field, "the engine has no runtime %q, it has %s", handler, strings.Join(f.Runtimes, ", "))
	}
	return runtime, nil
}
