package docker

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/security"
)

// facts is the engine's description of itself.
type facts struct {
	version client.ServerVersionResult
	info    system.Info
	// peer is the engine's process, see enginePID.
	peer int
}

func readFacts(ctx context.Context, api *client.Client) (facts, error) {
	version, err := api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return facts{}, err
	}
	info, err := api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return facts{}, err
	}
	return facts{version: version, info: info.Info}, nil
}

// apiCDI is the API version since which the engine knows CDI devices. An engine that does not inject them lists no CDI
// directories.
const apiCDI = "1.44"

// containerdStore is the entry in the storage driver's status that only engines with the containerd image store have.
var containerdStore = [2]string{"driver-type", "io.containerd.snapshotter.v1"}

// features derives the engine's features from the facts.
func (f facts) features(apiVersion string) Features {
	info := f.info
	cgroupVersion, err := strconv.Atoi(info.CgroupVersion)
	if err != nil {
		cgroupVersion = 1
	}
	process := witness("/proc", f.peer)
	runtimes := withoutOCIRuntime(info.Runtimes)
	out := Features{
		ServerVersion:        f.version.Version,
		APIVersion:           apiVersion,
		Process:              f.peer,
		OS:                   f.version.Os,
		Arch:                 f.version.Arch,
		CgroupVersion:        cgroupVersion,
		CgroupDriver:         info.CgroupDriver,
		StorageDriver:        info.Driver,
		ContainerdImageStore: slices.Contains(info.DriverStatus, containerdStore),
		Root:                 info.DockerRootDir,
		Runtimes:             slices.Sorted(maps.Keys(runtimes)),
		SandboxedRuntimes:    sandboxedRuntimes(runtimes, info.DefaultRuntime),
		ScriptedRuntimes:     scriptedRuntimes(info.Runtimes),
		PodSandboxRuntimes:   podSandboxRuntimes(runtimes),
		DefaultRuntime:       info.DefaultRuntime,
		RecursiveReadOnly:    recursiveReadOnly(runtimes, apiVersion, hasMountSetattr()),
		LiveRestore:          info.LiveRestoreEnabled,
		CDI:                  !versionLess(apiVersion, apiCDI) && len(info.CDISpecDirs) > 0,
		NoCheckpoint:         noCheckpoint(info.ExperimentalBuild, "/proc", process),
		HugePages:            limitedHugePages("/", cgroupVersion),
		SwapLimit:            info.SwapLimit,
		NegativeOOMScore:     canLowerOOMScore(process),
		InUserNamespace:      inUserNamespace(process),
		Limits:               readLimits(process),
		MaxOpenFiles:         readMaxOpenFiles("/proc"),
	}
	for _, option := range security.DecodeOptions(info.SecurityOptions) {
		switch option.Name {
		case "seccomp":
			out.Seccomp, out.SeccompProfile = true, seccompProfile(option)
		case "apparmor":
			out.AppArmor = true
		case "selinux":
			out.SELinux = true
		case "userns":
			out.userNSRemap = true
		case "rootless":
			out.rootless = true
		}
	}
	return out
}

// seccompProfile returns the profile in the security option seccomp, empty for the engine's own ("default" on 20.10).
func seccompProfile(option security.Option) string {
	for _, pair := range option.Options {
		if pair.Key == "profile" && pair.Value != "default" && pair.Value != "builtin" {
			return pair.Value
		}
	}
	return ""
}
