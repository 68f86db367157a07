package docker

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestFeatures(t *testing.T) {
	if testutil.AsRoot(t) {
		return
	}
	for name, c := range map[string]struct {
		version client.ServerVersionResult
		api     string
		info    string
		want    Features
	}{
		"20.10": {
			client.ServerVersionResult{Version: "20.10.24", Os: "linux", Arch: "amd64"}, "1.41",
			`{"Driver":"overlay2","DriverStatus":[["Backing Filesystem","extfs"]],"CgroupDriver":"cgroupfs","CgroupVersion":"1",
			"DockerRootDir":"/var/lib/docker","Runtimes":{"runc":{"path":"runc"},"io.containerd.runc.v2":{"path":"runc"}},
			"DefaultRuntime":"runc","LiveRestoreEnabled":true,"SwapLimit":true,"SecurityOptions":["name=seccomp,profile=default"]}`,
			Features{ServerVersion: "20.10.24", APIVersion: "1.41", OS: "linux", Arch: "amd64", CgroupVersion: 1,
				CgroupDriver:  "cgroupfs",
				StorageDriver: "overlay2", Root: "/var/lib/docker", Runtimes: []string{"io.containerd.runc.v2", "runc"},
				DefaultRuntime: "runc", LiveRestore: true, Seccomp: true, SwapLimit: true},
		},
		"29": {
			client.ServerVersionResult{Version: "29.1.0", Os: "linux", Arch: "arm64"}, "1.52",
			`{"Driver":"overlayfs","DriverStatus":[["driver-type","io.containerd.snapshotter.v1"]],"CgroupDriver":"systemd","CgroupVersion":"2",
			"DockerRootDir":"/data","Runtimes":{"runc":{"path":"runc","status":{"org.opencontainers.runtime-spec.features":"{\"mountOptions\":[\"ro\",\"rro\"]}"}},
			"runsc":{"path":"runsc","status":
			{"org.opencontainers.runtime-spec.features":"{\"mountOptions\":[\"ro\"]}"}},
			"old":{"path":"old","runtimeArgs":["--log","/l"]}},
			"DefaultRuntime":"runc","CDISpecDirs":["/etc/cdi"],
			"SecurityOptions":["name=apparmor","name=seccomp,profile=builtin","name=selinux","name=cgroupns","name=userns","name=rootless"]}`,
			Features{ServerVersion: "29.1.0", APIVersion: "1.52", OS: "linux", Arch: "arm64", CgroupVersion: 2,
				CgroupDriver:  "systemd",
				StorageDriver: "overlayfs", ContainerdImageStore: true, Root: "/data",
				Runtimes: []string{"old", "runc", "runsc"}, DefaultRuntime: "runc",
				SandboxedRuntimes: []string{"runsc"}, PodSandboxRuntimes: []string{"runsc"},
				ScriptedRuntimes: []string{"old"}, RecursiveReadOnly: []string{"runc"}, CDI: true,
				Seccomp: true, AppArmor: true, SELinux: true, userNSRemap: true, rootless: true},
		},
		"28, unconfined": {
			client.ServerVersionResult{Version: "28.0.0"}, "1.48",
			`{"SecurityOptions":["name=seccomp,profile=unconfined"]}`,
			Features{ServerVersion: "28.0.0", APIVersion: "1.48", CgroupVersion: 1, Seccomp: true,
				SeccompProfile: "unconfined"},
		},
		"says nothing": {client.ServerVersionResult{}, "1.41", `{}`, Features{APIVersion: "1.41", CgroupVersion: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts{version: c.version, peer: os.Getpid()}
			testutil.Must(t, json.Unmarshal([]byte(c.info), &f.info))
			got := f.features(c.api)
			testutil.Assert(t, strings.Contains(got.NoCheckpoint, "experimental"),
				"without experimental features it lacks %q", got.NoCheckpoint)
			testutil.Assert(t, got.MaxOpenFiles > 0, "at most %d open files", got.MaxOpenFiles)
			// These depend on this machine, and have tests of their own: TestCanLowerOOMScore, TestReadLimits,
			// TestReadMaxOpenFiles, TestNoCheckpoint and TestLimitedHugePages.
			got.NegativeOOMScore, got.InUserNamespace, got.Limits, got.MaxOpenFiles = false, false, nil, 0
			got.NoCheckpoint, got.HugePages, got.Process = "", nil, 0
			testutil.Assert(t, reflect.DeepEqual(got, c.want), "got  %+v\nwant %+v", got, c.want)
		})
	}
}

func TestSupports(t *testing.T) {
	for _, c := range []struct {
		have, need string
		want       bool
	}{
		{"1.41", "1.41", true}, {"1.41", "1.42", false}, {"1.52", "1.44", true}, {"1.100", "1.99", true},
		{"1.9", "1.41", false}, {"2.0", "1.99", true}, {"", "1.41", false}, {"nonsense", "1.41", false},
	} {
		testutil.Equal(t, (Features{APIVersion: c.have}).Supports(c.need), c.want, "%q supports %q", c.have, c.need)
	}
}

func TestCanLowerOOMScore(t *testing.T) {
	const all, without = "CapEff:\t000001ffffffffff\n", "CapEff:\t000001fffeffffff\n"
	const initial, mapped = "         0          0 4294967295\n", "         0     100000      65536\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"all capabilities": {
			map[string]string{"7/comm": "dockerd\n", "7/status": "Name:\tdockerd\n" + all, "7/uid_map": initial}, true},
		"without CAP_SYS_RESOURCE": {
			map[string]string{"7/comm": "dockerd\n", "7/status": without, "7/uid_map": initial}, false},
		"in a user namespace": {map[string]string{"7/comm": "dockerd\n", "7/status": all, "7/uid_map": mapped},
			false},
		"nothing to read": {nil, true},
		"no uid_map":      {map[string]string{"7/comm": "dockerd\n", "7/status": without}, false},
		"no such line":    {map[string]string{"7/comm": "dockerd\n", "7/status": "Name:\tx\n"}, true},
		"not hexadecimal": {map[string]string{"7/comm": "dockerd\n", "7/status": "CapEff:\tzz\n"}, true},
		"uid_map of several ranges": {
			map[string]string{"7/comm": "dockerd\n", "7/status": all, "7/uid_map": "0 0 1\n1 100000 65536\n"}, false},
		"systemd's socket": {map[string]string{"7/comm": "systemd\n", "7/status": all, "self/status": without}, false},
		"a proxy's socket": {
			map[string]string{"7/comm": "haproxy\n", "7/status": without, "self/status": all, "self/uid_map": initial},
			true},
	} {
		t.Run(name, func(t *testing.T) {
			proc := t.TempDir()
			for file, text := range c.files {
				testutil.WriteFile(t, filepath.Join(proc, file), text)
			}
			testutil.Equal(t, canLowerOOMScore(witness(proc, 7)), c.want, "canLowerOOMScore")
		})
	}
}

// TestInUserNamespace has the uid_map files of a machine, of a system container, and of a namespace with several
// ranges.
func TestInUserNamespace(t *testing.T) {
	dir := t.TempDir()
	testutil.Assert(t, !inUserNamespace(dir), "without a map")
	for text, want := range map[string]bool{
		"         0          0 4294967295\n": false,
		"         0    1000000 1000000000\n": true,
		"0 0 1\n1 100000 65536\n":            true,
	} {
		testutil.WriteFile(t, filepath.Join(dir, "uid_map"), text)
		testutil.Equal(t, inUserNamespace(dir), want, "with the map %q", text)
	}
}

func TestFeaturesOfTheBridge(t *testing.T) {
	f := newFakeServer(t)
	f.handle("GET /networks/bridge", answer(http.StatusOK,
		`{"EnableIPv6":true,"Options":{"com.docker.network.bridge.host_binding_ipv4":"192.0.2.1"}}`))
	for _, bridge := range []bool{true, false} {
		c, err := Dial(Options{Host: "unix://" + f.socket, Bridge: bridge})
		testutil.Must(t, err)
		got, err := c.Features(testContext(t))
		testutil.Must(t, errors.Join(err, c.Close()))
		testutil.Assert(t, (got.BridgeAddress == "192.0.2.1") == bridge && got.BridgeIPv6 == bridge,
			"with Options.Bridge %t it publishes at %q, with IPv6 %t", bridge, got.BridgeAddress, got.BridgeIPv6)
	}
}

func FuzzHasCapability(f *testing.F) {
	f.Add("CapEff:\t000001ffffffffff\n", uint(24))
	f.Add("CapEff:", uint(0))
	f.Add("CapEff:\t-1\nCapEff:\t0\n", uint(200))
	f.Fuzz(func(t *testing.T, status string, number uint) {
		testutil.Assert(t, strings.Contains(status, "CapEff:") || hasCapability(status, number),
			"a status without CapEff counts as a missing capability")
	})
}
