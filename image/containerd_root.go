package image

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/mountquote"
)

const (
	// snapshotterPrefix begins the name of a snapshotter's directory in the data directory of containerd.
	snapshotterPrefix = "io.containerd.snapshotter.v1."
	// systemContainerd is the default data directory of a containerd that the engine did not start itself.
	systemContainerd = "/var/lib/containerd"
	// systemConfig is the configuration file of that containerd. It need not exist.
	systemConfig = "/etc/containerd/config.toml"
)

// containerdRoots returns the possible data directories of the engine's containerd, the likeliest first. No API reports
// the directory, and an operator may have moved it to another disk. The mount of a running container shows it. Without
// a running container, the engine may have started a containerd below its own root, or it uses the system's containerd.
func (s *Service) containerdRoots(features docker.Features) (roots []string) {
	if !features.ContainerdImageStore {
		return nil
	}
	if seen := s.lookForRoot(features); seen != nil {
		roots = append(roots, seen.path)
	}
	roots = append(roots, filepath.Join(features.Root, "containerd", "daemon"))
	if root := configuredRoot(systemConfig); root != "" {
		roots = append(roots, root)
	}
	return append(roots, systemContainerd)
}

// seenRoot is a data directory of containerd that a mount has shown.
type seenRoot struct {
	path string
	// connection is Service.connection from before the mounts were read.
	connection uint64
}

// lookForRoot returns the data directory that the mounts show. If they show none, it returns the last one that they
// have shown. The directory moves only while the engine is down, so mounts are read until they have shown it on the
// present connection.
func (s *Service) lookForRoot(features docker.Features) *seenRoot {
	connection, last := s.connection.Load(), s.seenRoot.Load()
	if last != nil && last.connection == connection {
		return last
	}
	mounts, err := s.overlays()
	if err != nil {
		return last
	}
	root := mountedRoot(features, mounts)
	if root == "" {
		return last
	}
	seen := &seenRoot{path: root, connection: connection}
	s.seenRoot.CompareAndSwap(last, seen) // a concurrent call may have read newer mounts
	return seen
}

func overlayMounts() ([]*mountinfo.Info, error) {
	return mountinfo.GetMounts(mountinfo.FSTypeFilter("overlay"))
}

// mountedRoot finds containerd's data directory in the mount of a container of the engine, empty without one.
func mountedRoot(features docker.Features, mounts []*mountinfo.Info) string {
	containers := filepath.Join(features.Root, "rootfs", features.StorageDriver) + "/"
	for _, mount := range mounts {
		if !strings.HasPrefix(mount.Mountpoint, containers) {
			continue
		}
		for option := range strings.SplitSeq(mount.VFSOptions, ",") {
			layer, isUpper := strings.CutPrefix(option, "upperdir=")
			if root, _, ok := strings.Cut(layer, "/"+snapshotterPrefix+features.StorageDriver+"/"); ok && isUpper {
				return mountquote.Unquote(root)
			}
		}
	}
	return ""
}

// Parts of containerd's configuration: the beginning of its first table, and the key of the data directory before it.
var (
	tomlTable = regexp.MustCompile(`(?m)^\s*\[`)
	tomlRoot  = regexp.MustCompile(`(?m)^\s*root\s*=\s*["']([^"']+)["']`)
)

// configuredRoot returns the data directory in a configuration file of containerd, empty without one.
func configuredRoot(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	if table := tomlTable.FindIndex(text); table != nil {
		text = text[:table[0]]
	}
	found := tomlRoot.FindSubmatch(text)
	if found == nil {
		return ""
	}
	return string(found[1])
}
