package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/log"
	"github.com/containernetworking/cni/libcni"
	"golang.org/x/sys/unix"
)

// hostLocal is the plugin whose empty leases sweepLeases removes. hostLocalDir is its default data directory.
const (
	hostLocal    = "host-local"
	hostLocalDir = "/var/lib/cni/networks"
)

// sweepLeases removes leases of host-local that a power cut has left without content: the plugin does not fsync them.
// Such a file names no pod, so no DEL gives its address back. Files of this boot stay: another program may be about to
// write one.
func sweepLeases(ctx context.Context, networks map[string]*libcni.NetworkConfigList, boot time.Time) {
	for _, list := range networks {
		leases, err := leasesOf(list)
		if err != nil {
			log.G(ctx).WithError(err).WithField("network", list.Name).
				Warn("cannot look for leases that a power cut left empty")
		}
		for _, path := range leases {
			if !isLost(path, boot) {
				continue
			}
			if err := os.Remove(path); err != nil {
				log.G(ctx).WithError(err).Warn("cannot remove a lease that a power cut left empty")
				continue
			}
			log.G(ctx).WithField("file", path).Info("removed a lease that a power cut left empty")
		}
	}
}

// Leases returns the files of host-local's leases in the network of a configuration file. The first line of each is the
// pod's id. A file that is not a valid configuration has none. If a directory cannot be read, Leases returns the
// error and the leases of the other directories.
func Leases(file string) ([]string, error) {
	list, err := loadFile(file)
	if err != nil {
		return nil, nil
	}
	return leasesOf(list)
}

func leasesOf(list *libcni.NetworkConfigList) ([]string, error) {
	var paths []string
	var errs []error
	for _, dir := range leaseDirs(list) {
		leases, err := os.ReadDir(filepath.Join(dir, list.Name))
		// host-local makes the directory when the first pod joins.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, lease := range leases {
			if isLease(lease.Name()) {
				paths = append(paths, filepath.Join(dir, list.Name, lease.Name()))
			}
		}
	}
	return paths, errors.Join(errs...)
}

// leaseDirs returns the directories of host-local's leases in a configuration.
func leaseDirs(list *libcni.NetworkConfigList) []string {
	var dirs []string
	for _, plugin := range list.Plugins {
		config := struct {
			IPAM struct {
				Type    string `json:"type"`
				DataDir string `json:"dataDir"`
			} `json:"ipam"`
		}{}
		config.IPAM.DataDir = hostLocalDir
		if json.Unmarshal(plugin.Bytes, &config) == nil && config.IPAM.Type == hostLocal {
			dirs = append(dirs, config.IPAM.DataDir)
		}
	}
	return dirs
}

// isLease reports whether a file in host-local's directory is a lease: its name is an address.
func isLease(name string) bool {
	return strings.ContainsAny(name, ".:") && !strings.HasPrefix(name, "last_reserved_ip")
}

// isLost reports whether a lease of an earlier boot has no content.
func isLost(path string, boot time.Time) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || !info.ModTime().Before(boot) {
		return false
	}
	content, err := os.ReadFile(path)
	return err == nil && len(bytes.Trim(content, "\x00\r\n")) == 0
}

// bootTime returns when the machine was started.
func bootTime() (time.Time, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(-time.Duration(info.Uptime) * time.Second), nil
}
