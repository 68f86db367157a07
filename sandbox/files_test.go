package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
)

// ownHosts is how each pod's hosts file begins.
const ownHosts = "127.0.0.1\tlocalhost\n" +
	"::1\tlocalhost ip6-localhost ip6-loopback\n" +
	"fe00::0\tip6-localnet\n" +
	"ff00::0\tip6-mcastprefix\n" +
	"ff02::1\tip6-allnodes\n" +
	"ff02::2\tip6-allrouters\n"

// newFiles returns Files on a node with these files. An empty content stands for a missing file.
func newFiles(t *testing.T, resolvConf, resolved, hosts string) *Files {
	t.Helper()
	dir := t.TempDir()
	f := NewFiles(filepath.Join(dir, "files"))
	f.node = nodeFiles{filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "resolved"), filepath.Join(dir, "hosts")}
	for path, content := range map[string]string{f.node.resolvConf: resolvConf, f.node.resolvedResolvConf: resolved,
		f.node.hosts: hosts} {
		if content == "" {
			continue
		}
		testutil.Must(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return f
}

func TestFilesOfAPod(t *testing.T) {
	const (
		nodeResolv = "nameserver 192.0.2.1\nsearch example.com\n"
		stub       = "# systemd-resolved\nnameserver 127.0.0.53\noptions edns0\n"
		behindStub = "nameserver 192.0.2.53\n"
		nodeHosts  = "127.0.0.1 localhost node\n"
	)
	nodeName, err := os.Hostname()
	testutil.Must(t, err)
	full := &runtimeapi.DNSConfig{
		Servers:  []string{"10.0.0.10", "2001:db8::10"},
		Searches: []string{"default.svc.cluster.local", "svc.cluster.local"},
		Options:  []string{"ndots:5", "edns0"},
	}
	const fullResolv = "nameserver 10.0.0.10\nnameserver 2001:db8::10\n" +
		"search default.svc.cluster.local svc.cluster.local\noptions ndots:5 edns0\n"
	with := func(change func(*runtimeapi.PodSandboxConfig)) *runtimeapi.PodSandboxConfig {
		config := podConfig("web")
		config.DnsConfig = nil
		change(config)
		return config
	}
	tests := map[string]struct {
		config                      *runtimeapi.PodSandboxConfig
		nodeResolv, resolved, hosts string
		ips                         []string
		wantResolv, wantHosts, name string
	}{
		"own DNS": {
			with(func(c *runtimeapi.PodSandboxConfig) { c.DnsConfig = full }), nodeResolv, "", nodeHosts,
			[]string{"10.88.0.2", "fd00::2"}, fullResolv, ownHosts + "10.88.0.2\tweb\nfd00::2\tweb\n", "web",
		},
		"servers only": {
			with(func(c *runtimeapi.PodSandboxConfig) {
				c.DnsConfig = &runtimeapi.DNSConfig{Servers: []string{"10.0.0.10"}}
			}), nodeResolv, "", nodeHosts,
			nil, "nameserver 10.0.0.10\n", ownHosts, "web",
		},
		"options only": {
			with(func(c *runtimeapi.PodSandboxConfig) {
				c.DnsConfig = &runtimeapi.DNSConfig{Options: []string{"ndots:1"}}
			}), nodeResolv, "", nodeHosts,
			nil, "options ndots:1\n", ownHosts, "web",
		},
		"no DNS: the node's": {with(func(*runtimeapi.PodSandboxConfig) {}), nodeResolv, "", nodeHosts, nil,
			nodeResolv, ownHosts, "web"},
		"an empty DNS: the node's": {
			with(func(c *runtimeapi.PodSandboxConfig) { c.DnsConfig = &runtimeapi.DNSConfig{} }), nodeResolv, "",
			nodeHosts, nil, nodeResolv, ownHosts, "web"},
		"a stub: what is behind it": {with(func(*runtimeapi.PodSandboxConfig) {}), stub, behindStub, nodeHosts,
			nil, behindStub, ownHosts, "web"},
		"a stub with nothing behind it": {with(func(*runtimeapi.PodSandboxConfig) {}), stub, "", nodeHosts, nil, stub,
			ownHosts, "web"},
		"a node without DNS": {with(func(*runtimeapi.PodSandboxConfig) {}), "", "", nodeHosts, nil, "",
			ownHosts, "web"},
		"host network": {onHostNetwork(with(func(*runtimeapi.PodSandboxConfig) {})), stub,
			behindStub, nodeHosts, nil, stub, nodeHosts, nodeName},
		"host network with DNS": {
			onHostNetwork(with(func(c *runtimeapi.PodSandboxConfig) { c.DnsConfig = full })), stub, behindStub,
			nodeHosts, nil, fullResolv, nodeHosts, nodeName},
		"host network without hosts file": {onHostNetwork(with(func(*runtimeapi.PodSandboxConfig) {})), stub, "", "",
			nil, stub, "", nodeName},
		"no host name: the pod's name": {
			with(func(c *runtimeapi.PodSandboxConfig) { c.Hostname = "" }), nodeResolv, "", nodeHosts,
			[]string{"10.88.0.2"}, nodeResolv, ownHosts + "10.88.0.2\tweb\n", "web",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFiles(t, tt.nodeResolv, tt.resolved, tt.hosts)
			testutil.Assert(t, !f.complete("id") && f.Of("id") == (translate.HostFiles{}),
				"there are files before they are written")
			testutil.Must(t, f.write("id", tt.config, nil))
			testutil.Assert(t, f.complete("id"), "not complete")
			testutil.Must(t, f.writeHosts("id", tt.config, tt.ips))
			paths := f.Of("id")
			testutil.Holds(t, paths.ResolvConf, tt.wantResolv)
			testutil.Holds(t, paths.Hosts, tt.wantHosts)
			testutil.Holds(t, paths.Hostname, tt.name+"\n")
			for range 2 {
				testutil.Check(t, f.remove("id"))
			}
			entries, err := os.ReadDir(f.dir)
			testutil.Assert(t, err == nil && len(entries) == 0, "%v is left (%v)", entries, err)
		})
	}
}

// Containers run as any user. Only root may list the directory above.
func TestFilesAreReadableByEveryUser(t *testing.T) {
	before := syscall.Umask(0o077)
	defer syscall.Umask(before)
	f := newFiles(t, "nameserver 192.0.2.1\n", "", "")
	testutil.Must(t, f.write("id", podConfig("web"), nil))
	paths := f.Of("id")
	for _, path := range []string{paths.ResolvConf, paths.Hosts, paths.Hostname} {
		info, err := os.Stat(path)
		testutil.Must(t, err)
		testutil.Assert(t, info.Mode().Perm() == 0o644, "%s has mode %v", path, info.Mode())
	}
	info, err := os.Stat(filepath.Dir(paths.Hosts))
	testutil.Must(t, err)
	testutil.Assert(t, info.Mode().Perm()&0o066 == 0, "the directory has mode %v", info.Mode())
}

// The file itself is mounted into containers, so they would not see a new file at its path.
func TestHostsFileIsWrittenInPlace(t *testing.T) {
	f := newFiles(t, "nameserver 192.0.2.1\n", "", "")
	testutil.Must(t, f.write("id", podConfig("web"), nil))
	stat := func() fs.FileInfo {
		info, err := os.Stat(f.Of("id").Hosts)
		testutil.Must(t, err)
		return info
	}
	before := stat()
	testutil.Must(t, f.writeHosts("id", podConfig("web"), []string{"10.88.0.2"}))
	testutil.Assert(t, os.SameFile(before, stat()), "the hosts file was replaced")
}

// Containers have the files mounted, and may have added lines.
func TestMissingFilesAreWrittenAgain(t *testing.T) {
	f := newFiles(t, "nameserver 192.0.2.1\n", "", "")
	ips := []string{"10.88.0.2"}
	testutil.Must(t, f.write("id", podConfig("web"), nil))
	testutil.Must(t, f.writeHosts("id", podConfig("web"), ips))
	paths := f.Of("id")
	testutil.Must(t, os.WriteFile(paths.Hosts, []byte("of the container\n"), 0o600))
	testutil.Must(t, os.Remove(paths.Hostname))
	testutil.Must(t, f.write("id", podConfig("web"), ips))
	testutil.Holds(t, paths.Hostname, "web\n")
	testutil.Holds(t, paths.Hosts, "of the container\n", "a hosts file that was there")
	testutil.Must(t, os.Remove(paths.Hosts))
	testutil.Must(t, f.write("id", podConfig("web"), ips))
	testutil.Holds(t, paths.Hosts, ownHosts+"10.88.0.2\tweb\n", "a hosts file that was missing")
}

// complete reports whether all files of a pod are there.
func (f *Files) complete(sandboxID string) bool {
	files := f.Of(sandboxID)
	for _, path := range []string{files.ResolvConf, files.Hosts, files.Hostname} {
		if _, err := os.Stat(path); err != nil {
			return false
		}
	}
	return true
}

func TestFilesThatCannotBeWritten(t *testing.T) {
	f := newFiles(t, "nameserver 192.0.2.1\n", "", "")
	testutil.Must(t, os.WriteFile(f.dir, nil, 0o600))
	err := f.write("id", podConfig("web"), nil)
	testutil.Assert(t, err != nil, "write succeeded without a directory")
	testutil.Assert(t, !f.complete("id"), "complete without a directory")
	unreadable := newFiles(t, "", "", "")
	testutil.Must(t, os.Mkdir(unreadable.node.resolvConf, 0o700))
	config := podConfig("web")
	config.DnsConfig = nil
	testutil.Assert(t, unreadable.write("id", config, nil) != nil, "write succeeded without the node's resolv.conf")
}

// Recover and collectOrphans report that they cannot list the pods' files. A missing directory is no error.
func TestFilesThatCannotBeListed(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		n.must(n.Recover(n.Context()))
		n.must(os.Symlink(n.files.dir, n.files.dir)) // a loop
		testutil.FailsWith(n, n.Recover(n.Context()), syscall.ELOOP, "Recover")
		testutil.FailsWith(n, n.collectOrphans(n.Context()), syscall.ELOOP, "collectOrphans")
		n.must(os.Remove(n.files.dir))
		n.must(n.collectOrphans(n.Context()))
	})
}
