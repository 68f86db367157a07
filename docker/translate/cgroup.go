package translate

import (
	"path"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
)

const (
	systemdDriver = "systemd"
	noDriver      = "none"
	sliceSuffix   = ".slice"

	// The engine's own defaults. Requests name them, so that cgroup-parent of daemon.json does not move pods elsewhere.
	defaultCgroupParent = "/docker"
	defaultSlice        = "system.slice"
)

// cgroupParent converts CRI's cgroup parent, which is written as for cgroupfs, to the notation of the engine's driver.
func cgroupParent(field, parent string, f docker.Features) (string, error) {
	if parent == "" {
		return defaultParent(f), nil
	}
	if err := checkPath(field, parent); err != nil {
		return "", err
	}
	if slices.Contains(strings.Split(parent, "/"), "..") {
		return "", invalid(field, "%q leaves its directory", parent)
	}
	if f.CgroupDriver != systemdDriver {
		return parent, nil
	}
	// The name of a slice has the names of its ancestors, so the last element is enough: /a.slice/a-b.slice is
	// a-b.slice.
	slice := path.Base(parent)
	if !strings.HasSuffix(slice, sliceSuffix) || slice == sliceSuffix {
		return "", invalid(field,
			"%q does not end in the name of a slice: the engine uses the cgroup driver systemd, let the kubelet "+
				"use it too", parent)
	}
	return slice, nil
}

func defaultParent(f docker.Features) string {
	switch f.CgroupDriver {
	case systemdDriver:
		return defaultSlice
	case noDriver:
		return ""
	default:
		return defaultCgroupParent
	}
}

// cgroupNamespace follows containerd. On cgroup v1 no container gets a namespace, because programs look up their
// controllers under the host's paths there. On v2 all containers get one except privileged ones, which may manage the
// host's cgroups.
func cgroupNamespace(f docker.Features, privileged bool) container.CgroupnsMode {
	if f.CgroupVersion < 2 || privileged {
		return container.CgroupnsModeHost
	}
	return container.CgroupnsModePrivate
}
