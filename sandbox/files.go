package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/step"
)

// nodeFiles are the node's files that a pod gets a copy of by default.
type nodeFiles struct{ resolvConf, resolvedResolvConf, hosts string }

// Files keeps each pod's resolv.conf, hosts and hostname: the engine makes them only for containers on its own
// networks. They are complete before the pod's first container exists, and are mounted into each container.
type Files struct {
	dir  string
	node nodeFiles
}

// NewFiles returns Files that keep each pod's files in a directory below dir.
func NewFiles(dir string) *Files {
	return &Files{dir: dir, node: nodeFiles{
		resolvConf:         "/etc/resolv.conf",
		resolvedResolvConf: "/run/systemd/resolve/resolv.conf",
		hosts:              "/etc/hosts",
	}}
}

// Of returns the paths of a pod's files, all empty for a pod that another shim made.
func (f *Files) Of(sandboxID string) translate.HostFiles {
	dir := filepath.Join(f.dir, sandboxID)
	if _, err := os.Stat(dir); err != nil {
		return translate.HostFiles{}
	}
	return translate.HostFiles{
		ResolvConf: filepath.Join(dir, "resolv.conf"),
		Hosts:      filepath.Join(dir, "hosts"),
		Hostname:   filepath.Join(dir, "hostname"),
	}
}

// write makes the missing files of the pod. Existing files stay, because containers have them mounted and may have
// changed them. After a failure or a crash each file is whole or missing.
func (f *Files) write(sandboxID string, config *runtimeapi.PodSandboxConfig, ips []string) error {
	defer step.At("pod files: write")()
	if err := os.MkdirAll(filepath.Join(f.dir, sandboxID), 0o711); err != nil {
		return fmt.Errorf("making the directory of the pod's files: %w", err)
	}
	files := f.Of(sandboxID)
	for path, read := range map[string]func() ([]byte, error){
		files.ResolvConf: func() ([]byte, error) { return f.resolvConf(config) },
		files.Hostname: func() ([]byte, error) {
			name, err := hostname(config)
			return []byte(name + "\n"), err
		},
		files.Hosts: func() ([]byte, error) { return f.hosts(config, ips) },
	} {
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		content, err := read()
		if err != nil {
			return err
		}
		if err := writeNew(path, content); err != nil {
			return err
		}
	}
	return nil
}

// writeNew is writeReadable for a new file.
func writeNew(path string, content []byte) error {
	unfinished := path + ".unfinished"
	if err := writeReadable(unfinished, content); err != nil {
		return err
	}
	return os.Rename(unfinished, path)
}

// writeHosts writes the hosts file for the addresses given.
func (f *Files) writeHosts(sandboxID string, config *runtimeapi.PodSandboxConfig, ips []string) error {
	defer step.At("pod files: write hosts")()
	content, err := f.hosts(config, ips)
	if err != nil {
		return err
	}
	return writeReadable(f.Of(sandboxID).Hosts, content)
}

// writeReadable writes a file that every user in a container can read, whatever this program's umask is.
func writeReadable(path string, content []byte) error {
	err := os.WriteFile(path, content, 0o644)
	if err == nil {
		err = os.Chmod(path, 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing a file of the pod: %w", err)
	}
	return nil
}

func (f *Files) has(sandboxID string) bool {
	_, err := os.Lstat(filepath.Join(f.dir, sandboxID))
	return err == nil
}

// list returns the pods that have files.
func (f *Files) list() ([]string, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil && !os.IsNotExist(err) { // the directory is missing before the first pod
		return nil, fmt.Errorf("listing the pods' files: %w", err)
	}
	ids := make([]string, 0, len(entries))
	for _, entry := range entries {
		ids = append(ids, entry.Name())
	}
	return ids, nil
}

func (f *Files) remove(sandboxID string) error {
	defer step.At("pod files: remove")()
	return os.RemoveAll(filepath.Join(f.dir, sandboxID))
}

// resolvConf returns the pod's own DNS configuration, also for a pod in the host's network. A pod without one gets the
// node's file.
func (f *Files) resolvConf(config *runtimeapi.PodSandboxConfig) ([]byte, error) {
	dns := config.GetDnsConfig()
	if len(dns.GetServers())+len(dns.GetSearches())+len(dns.GetOptions()) == 0 {
		return f.nodeResolvConf(translate.UsesHostNetwork(config))
	}
	var b bytes.Buffer
	for _, server := range dns.GetServers() {
		fmt.Fprintf(&b, "nameserver %s\n", server)
	}
	if searches := dns.GetSearches(); len(searches) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(searches, " "))
	}
	if options := dns.GetOptions(); len(options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(options, " "))
	}
	return b.Bytes(), nil
}

// nodeResolvConf reads the node's file. systemd-resolved's stub on 127.0.0.53 cannot be reached from a pod's own
// network; the service keeps a second file with the real servers for this case.
func (f *Files) nodeResolvConf(onHostNetwork bool) ([]byte, error) {
	content, err := readOptional(f.node.resolvConf)
	if err != nil {
		return nil, err
	}
	if !onHostNetwork && bytes.Contains(content, []byte("nameserver 127.0.0.53")) {
		if real, err := readOptional(f.node.resolvedResolvConf); err == nil && len(real) > 0 {
			return real, nil
		}
	}
	return content, nil
}

// hosts returns the node's hosts file for a pod in the host's network, else the pod's own file.
func (f *Files) hosts(config *runtimeapi.PodSandboxConfig, ips []string) ([]byte, error) {
	if translate.UsesHostNetwork(config) {
		return readOptional(f.node.hosts)
	}
	name, err := hostname(config)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("127.0.0.1\tlocalhost\n")
	b.WriteString("::1\tlocalhost ip6-localhost ip6-loopback\n")
	b.WriteString("fe00::0\tip6-localnet\n")
	b.WriteString("ff00::0\tip6-mcastprefix\n")
	b.WriteString("ff02::1\tip6-allnodes\n")
	b.WriteString("ff02::2\tip6-allrouters\n")
	for _, ip := range ips {
		fmt.Fprintf(&b, "%s\t%s\n", ip, name)
	}
	return b.Bytes(), nil
}

// hostname returns the node's host name for a pod in the host's network. Any other pod has the host name that
// translate.Hostname returns.
func hostname(config *runtimeapi.PodSandboxConfig) (string, error) {
	if translate.UsesHostNetwork(config) {
		name, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("reading the node's host name: %w", err)
		}
		return name, nil
	}
	return translate.Hostname(config), nil
}

func readOptional(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("reading the node's file for the pod: %w", err)
	}
	return content, nil
}
