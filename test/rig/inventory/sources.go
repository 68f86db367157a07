package inventory

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/test/cgroups"
)

func (i Inventory) addEngine(ctx context.Context, host string) error {
	cli, err := client.New(client.WithHost(host))
	if err != nil {
		return err
	}
	defer cli.Close()
	containers, err := cli.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return err
	}
	for _, c := range containers.Items {
		i.add("container", fmt.Sprintf("%s %s %s", c.ID[:12], c.Names, c.State))
	}
	volumes, err := cli.VolumeList(ctx, client.VolumeListOptions{})
	if err != nil {
		return err
	}
	for _, volume := range volumes.Items {
		i.add("engine volume", volume.Name)
	}
	return nil
}

func (i Inventory) addMounts() error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(table)) {
		i.add("mount", strings.Fields(line)[4])
	}
	return nil
}

// addRules counts the rules of the table nat that name a CNI chain (CNI-...), such as the host-port rules of the plugin
// portmap.
func (i Inventory) addRules(ctx context.Context) error {
	rules, err := exec.CommandContext(ctx, "iptables-save", "-t", "nat").Output()
	if err != nil {
		return fmt.Errorf("iptables-save: %w", err)
	}
	for line := range strings.Lines(string(rules)) {
		if strings.Contains(line, "CNI-") && !strings.HasPrefix(line, ":") {
			i.add("host-port rule", strings.TrimSpace(line))
		}
	}
	return nil
}

func (i Inventory) addInterfaces() error {
	interfaces, err := net.Interfaces()
	for _, link := range interfaces {
		i.add("network interface", link.Name)
	}
	return err
}

// servers matches the names of processes that belong to the server, the engine, tests and clusters, not to pods.
// The server starts its keeper (package ociexec) when a command needs it, so a new server may have none.
// criadapter-oci is not matched, because it runs for one container.
var servers = regexp.MustCompile(`^(criadapter|criadapter-keep.*|dockerd|containerd|.*\.test|soak|rig|iptables.*|` +
	`ctr|docker-init|modprobe|etcd|kube.*)$`)

func (i Inventory) addProcesses() error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		name, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "comm"))
		comm := strings.TrimSpace(string(name))
		if err == nil && !servers.MatchString(comm) {
			i.add("process", comm)
		}
	}
	return nil
}

// kept matches files that stay by design: the node's own files, and extracted images, which stay for a while.
var kept = regexp.MustCompile(`/(image-volumes/[0-9a-f]{64}(/.*)?|lock|last_reserved_ip\.\d+|machine-id)$`)

func (i Inventory) addFiles(kind, dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || path == dir {
			return err
		}
		if kept.MatchString(path) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		i.add(kind, path)
		return nil
	})
}

// addCgroups counts a cgroup and all cgroups below it, in every hierarchy.
func (i Inventory) addCgroups(below string) error {
	for _, root := range cgroups.Find(below) {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil
			}
			if err == nil && entry.IsDir() {
				i.add("cgroup", path)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
