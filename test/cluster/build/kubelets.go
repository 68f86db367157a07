package build

import (
	"fmt"
	"slices"
	"strings"
)

// Release is the minor release of Version. Its kubelet is one of the cluster's programs.
const Release = "1.36"

// kubeletModule is a directory in test/cluster/tools that pins the kubelet of another release.
type kubeletModule struct{ release, version string }

func (m kubeletModule) tools() string { return "kubelet-" + m.release }

// kubeletModules returns the modules of the other kubelets, ordered by release.
func kubeletModules() []kubeletModule {
	return []kubeletModule{{"1.34", "v1.34.4"}, {"1.35", "v1.35.4"}, {"1.37", "v1.37.2"}}
}

// Releases returns the minor releases whose kubelet may run with a control plane of Version.
func Releases() []string {
	all := []string{Release}
	for _, module := range kubeletModules() {
		all = append(all, module.release)
	}
	slices.Sort(all)
	return all
}

// KubeletVersion is the version of a release's kubelet.
func KubeletVersion(release string) (string, error) {
	if release == Release {
		return Version, nil
	}
	for _, module := range kubeletModules() {
		if module.release == release {
			return module.version, nil
		}
	}
	return "", fmt.Errorf("there is no kubelet of %q: want one of %s", release, strings.Join(Releases(), ", "))
}

// withKubelet replaces the kubelet of the list by the kubelet of another release.
func withKubelet(list []program, release string) ([]program, error) {
	version, err := KubeletVersion(release)
	if err != nil || release == Release {
		return list, err
	}
	other := slices.Clone(list)
	for i := range other {
		if other[i].name == kubelet {
			other[i].tools, other[i].linkerFlags = kubeletModule{release, version}.tools(), "-s -w "+stamps(version)
		}
	}
	return other, nil
}
