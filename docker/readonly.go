package docker

import (
	"encoding/json"
	"slices"

	"github.com/moby/moby/api/types/system"
	"golang.org/x/sys/unix"
)

// APIRecursiveReadOnly is the API version since which the engine makes read-only mounts recursive by default.
const APIRecursiveReadOnly = "1.44"

// runtimeFeatures is the key of an OCI runtime's own description (the output of `runc features`), in the engine's
// description of its runtimes.
const runtimeFeatures = "org.opencontainers.runtime-spec.features"

// recursiveReadOnly returns the runtimes that can make mounts read-only
// recursively, in lexical order.
func recursiveReadOnly(runtimes map[string]system.RuntimeWithStatus, apiVersion string, kernel bool) []string {
	if !kernel || versionLess(apiVersion, APIRecursiveReadOnly) {
		return nil
	}
	return namesOf(runtimes, func(name string) bool {
		return knowsMountOption(runtimes[name].Status[runtimeFeatures], "rro")
	})
}

// knowsMountOption reports whether a runtime lists a mount option among its features. A runtime without a list has
// none.
func knowsMountOption(features, option string) bool {
	var said struct {
		MountOptions []string `json:"mountOptions"`
	}
	return json.Unmarshal([]byte(features), &said) == nil && slices.Contains(said.MountOptions, option)
}

// hasMountSetattr asks the kernel for mount_setattr(2), which came with Linux
// 5.12. A call without any attribute to set changes nothing.
func hasMountSetattr() bool {
	return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{}) == nil
}
