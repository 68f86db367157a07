package chaos

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// inventory is what there is on a node, by its kind.
type inventory map[string][]string

// takeInventory lists all that pods may leave: in the engine, which must be the test's own, in the kernel, and in files.
func takeInventory(t *testing.T, env rigenv.Env, server *adapter.Server) inventory {
	t.Helper()
	i := inventory{}
	i.addEngine(t, env)
	i.addMounts(t)
	i.addRules(t)
	i.addProcesses(t)
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range interfaces {
		i.add("network interface", link.Name)
	}
	for kind, dir := range map[string]string{
		"leased address": filepath.Join(server.Dir, "ipam"), "CNI cache": server.CNICacheDir, "file of the server": server.RootDir,
		"log file": filepath.Join(server.Dir, "logs"), "pin": "/run/netns", "directory of a pod": "/run/criadapter/pods",
		"note": filepath.Join(filepath.Dir(env.DockerRoot), "notes"),
	} {
		i.addFiles(t, kind, dir)
	}
	return i
}

func (i inventory) add(kind, name string) { i[kind] = append(i[kind], name) }

func (i inventory) addEngine(t *testing.T, env rigenv.Env) {
	t.Helper()
	cli, err := client.New(client.WithHost(env.DockerHost))
	if err != nil {
		t.Fatal(err)
	}
	defer cli.Close()
	containers, err := cli.ContainerList(t.Context(), client.ContainerListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers.Items {
		i.add("container", fmt.Sprintf("%s %s %s", c.ID[:12], c.Names, c.State))
	}
	volumes, err := cli.VolumeList(t.Context(), client.VolumeListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, volume := range volumes.Items {
		i.add("engine volume", volume.Name)
	}
}

func (i inventory) addMounts(t *testing.T) {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		i.add("mount", strings.Fields(line)[4])
	}
}

// addRules counts what the plugin portmap leaves: its rules have the pod's id or chain.
func (i inventory) addRules(t *testing.T) {
	t.Helper()
	rules, err := exec.CommandContext(t.Context(), "iptables-save", "-t", "nat").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(rules)) {
		if strings.Contains(line, "CNI-") && !strings.HasPrefix(line, ":") {
			i.add("host-port rule", strings.TrimSpace(line))
		}
	}
}

// servers are processes that come and go with the server and the engine, not with pods.
var servers = regexp.MustCompile(`^(criadapter.*|dockerd|containerd|chaos\.test|rig|iptables.*|ctr|docker-init|modprobe)$`)

func (i inventory) addProcesses(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
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
}

// kept are files that stay by design: the node's own, and images that were extracted, for a while.
var kept = regexp.MustCompile(`/(image-volumes/[0-9a-f]{64}(/.*)?|lock|last_reserved_ip\.\d+|machine-id)$`)

func (i inventory) addFiles(t *testing.T, kind, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) || path == dir {
			return nil
		}
		if kept.MatchString(path) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		i.add(kind, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// kinds are all kinds of two inventories.
func kinds(a, b inventory) []string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return slices.Sorted(maps.Keys(both))
}

// differs says what there is more or less than wanted, by numbers: names are of pods, whose ids differ.
func (i inventory) differs(wanted inventory) string {
	var text strings.Builder
	for _, kind := range kinds(i, wanted) {
		if len(i[kind]) != len(wanted[kind]) {
			fmt.Fprintf(&text, "%s: %d, should be %d:%s\n", kind, len(i[kind]), len(wanted[kind]), unlike(i[kind], wanted[kind]))
		}
	}
	return text.String()
}

// unlike lists what only one of two lists has.
func unlike(a, b []string) string {
	var text strings.Builder
	for _, name := range a {
		if !slices.Contains(b, name) {
			fmt.Fprintf(&text, "\n  + %s", name)
		}
	}
	for _, name := range b {
		if !slices.Contains(a, name) {
			fmt.Fprintf(&text, "\n  - %s", name)
		}
	}
	return text.String()
}

// without is what there is but for what is others'.
func (i inventory) without(others func(kind, name string) bool) inventory {
	if others == nil {
		return i
	}
	rest := inventory{}
	for kind, names := range i {
		rest[kind] = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return others(kind, name) })
	}
	return rest
}

// awaitInventory waits until there is what is wanted but for what is others', and returns what still differs after a while:
// engines end processes and remove mounts a moment after their answer.
func awaitInventory(t *testing.T, env rigenv.Env, server *adapter.Server, wanted inventory, others func(kind, name string) bool) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		differs := takeInventory(t, env, server).without(others).differs(wanted.without(others))
		if differs == "" || ctx.Err() != nil {
			return differs
		}
		time.Sleep(50 * time.Millisecond)
	}
}
