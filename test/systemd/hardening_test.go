package systemd

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// mostExposure is the largest allowed exposure of the unit, as systemd computes it. A unit without any hardening has
// 9.6 of 10. Further options would make a mount namespace, or take rights that CNI plugins need.
const mostExposure = 8.3

// exposure is the last line of systemd-analyze security.
var exposure = regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)

// TestUnitsMakeNoMountNamespace checks that the units have no option that makes a mount namespace. A network namespace
// pinned in there would be invisible to the engine and to the next start.
func TestUnitsMakeNoMountNamespace(t *testing.T) {
	makes := regexp.MustCompile(`(?m)^(Private(Tmp|Devices|Mounts|Users|Network|IPC)|Protect(System|Home|KernelTunables|KernelModules|KernelLogs|ControlGroups|Proc|Hostname|Clock)|` +
		`(ReadWrite|ReadOnly|Inaccessible|Exec|NoExec)Paths|Bind(ReadOnly)?Paths|TemporaryFileSystem|Root(Directory|Image)|MountFlags|ProcSubset|DynamicUser|RestrictNamespaces|NoNewPrivileges)=`)
	for _, unit := range []string{"../../contrib/systemd/criadapter.service",
		"../../packaging/cri-docker/cri-docker.service"} {
		content, err := os.ReadFile(unit)
		testutil.Must(t, err)
		found := makes.FindAllString(string(content), -1)
		testutil.Assert(t, len(found) <= 0, "%s has %q", filepath.Base(unit), found)
		if !strings.Contains(string(content), "\nCapabilityBoundingSet=~") ||
			!strings.Contains(string(content), "\nLimitCORE=0\n") {
			t.Errorf("%s is not hardened", filepath.Base(unit))
		}
	}
}

// hardened checks the effect of the unit's options on the process, and systemd's judgement of the unit.
func (m *machine) hardened() {
	m.t.Helper()
	pid := m.show("MainPID")
	own, first := m.must("readlink", "/proc/"+pid+"/ns/mnt"), m.must("readlink", "/proc/1/ns/mnt")
	testutil.Assert(m.t, own == first, "the service has a mount namespace of its own, %s beside %s", own, first)
	limits := m.must("grep", "^Max core file size", "/proc/"+pid+"/limits")
	testutil.Assert(m.t, regexp.MustCompile(`size +0 +0 `).MatchString(limits),
		"a core dump may be written: %s", limits)
	set, err := strconv.ParseUint(strings.TrimPrefix(m.must("grep", "^CapBnd", "/proc/"+pid+"/status"), "CapBnd:\t"),
		16, 64)
	testutil.Must(m.t, err)
	for name, bit := range map[string]uint{"CAP_SYS_BOOT": 22, "CAP_SYS_TIME": 25, "CAP_MAC_ADMIN": 33} {
		testutil.Assert(m.t, set&(1<<bit) == 0, "%s is in the bounding set %x", name, set)
	}
	for name, bit := range map[string]uint{"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21, "CAP_SYS_MODULE": 16,
		"CAP_SYS_PTRACE": 19} {
		testutil.Assert(m.t, set&(1<<bit) != 0,
			"%s, which CNI plugins and pods need, is not in the bounding set %x", name, set)
	}
	if output, code := m.run("systemd-analyze", "verify", "--man=no",
		"/etc/systemd/system/criadapter.service"); code != 0 || strings.Contains(output, "criadapter.") {
		m.t.Errorf("systemd-analyze verify: exit code %d: %s", code, output)
	}
	output, code := m.run("systemd-analyze", "security", "--no-pager", "criadapter.service")
	found := exposure.FindStringSubmatch(output)
	testutil.Require(m.t, code == 0 && found != nil, "systemd-analyze security: exit code %d: %s", code, output)
	if level, err := strconv.ParseFloat(found[1], 64); err != nil || level > mostExposure {
		m.t.Errorf("%s, want at most %.1f:\n%s", found[0], mostExposure, output)
	}
	m.t.Logf("systemd says: %s", found[0])
}
