package node

import (
	"runtime/debug"
	"strings"
)

// moduleVersion returns the Kubernetes release of the linked API with the suffix -core: v1.37.2-core for k8s.io/api
// v0.37.2. Clients compare it with the API server's version, so this program's own release would mislead them.
func moduleVersion() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	const unknown = "v0.0.0-core" // clients must be able to parse it
	if info == nil {
		return unknown
	}
	for _, module := range info.Deps {
		if module.Path != "k8s.io/api" {
			continue
		}
		if module.Replace != nil {
			module = module.Replace
		}
		if rest, ok := strings.CutPrefix(module.Version, "v0."); ok {
			return "v1." + rest + "-core"
		}
	}
	return unknown
}
