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

// mostExposure is what systemd's own judgement of the unit must not exceed, of 10 for a unit without any limit, which is
// a 9.6. What would bring more makes a mount namespace, or takes away what CNI plugins need.
const mostExposure = 8.3

// exposure is the last line of systemd-analyze security.
var exposure = regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)

// TestUnitsMakeNoMountNamespace reads the units for each option that would make one: a pod's network namespace that is
// pinned there is seen neither by the engine nor by the next start.
func TestUnitsMakeNoMountNamespace(t *testing.T) {
	makes := regexp.MustCompile(`(?m)^(Private(Tmp|Devices|Mounts|Users|Network|IPC)|Protect(System|Home|KernelTunables|KernelModules|KernelLogs|ControlGroups|Proc|Hostname|Clock)|` +
		`(ReadWrite|ReadOnly|Inaccessible|Exec|NoExec)Paths|Bind(ReadOnly)?Paths|TemporaryFileSystem|Root(Directory|Image)|MountFlags|ProcSubset|DynamicUser|RestrictNamespaces|NoNewPrivileges)=`)
	for _, unit := range []string{"../../contrib/systemd/criadapter.service", "../../packaging/cri-docker/cri-docker.service"} {
		content, err := os.ReadFile(unit)
		testutil.Must(t, err)
		found := makes.FindAllString(string(content), -1)
		testutil.Assert(t, len(found) <= 0, "%s has %q", filepath.Base(unit), found)
		if !strings.Contains(string(content), "\nCapabilityBoundingSet=~") || !strings.Contains(string(content), "\nLimitCORE=0\n") {
			t.Errorf("%s is not hardened", filepath.Base(unit))
		}
	}
}

// hardened looks at the process for what the unit's options made of it, and asks systemd what it thinks of the unit.
func (m *machine) hardened() {
	m.t.Helper()
	pid := m.show("MainPID")
	own, first := m.must("readlink", "/proc/"+pid+"/ns/mnt"), m.must("readlink", "/proc/1/ns/mnt")
	testutil.Assert(m.t, own == first, "the service has a mount namespace of its own, %s beside %s", own, first)
	limits := m.must("grep", "^Max core file size", "/proc/"+pid+"/limits")
	testutil.Assert(m.t, regexp.MustCompile(`size +0 +0 `).MatchString(limits), "a core may be written: %s", limits)
	set, err := strconv.ParseUint(strings.TrimPrefix(m.must("grep", "^CapBnd", "/proc/"+pid+"/status"), "CapBnd:\t"), 16, 64)
	testutil.Must(m.t, err)
	for name, bit := range map[string]uint{"CAP_SYS_BOOT": 22, "CAP_SYS_TIME": 25, "CAP_MAC_ADMIN": 33} {
		testutil.Assert(m.t, set&(1<<bit) == 0, "%s is in the bounding set %x", name, set)
	}
	for name, bit := range map[string]uint{"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21, "CAP_SYS_MODULE": 16, "CAP_SYS_PTRACE": 19} {
		testutil.Assert(m.t, set&(1<<bit) != 0,
			"%s, which CNI plugins and pods need, is not in the bounding set %x", name, set)
	}
	if output, code := m.run("systemd-analyze", "verify", "--man=no", "/etc/systemd/system/criadapter.service"); code != 0 || strings.Contains(output, "criadapter.") {
		m.t.Errorf("systemd-analyze verify: exit code %d: %s", code, output)
	}
	output, code := m.run("systemd-analyze", "security", "--no-pager", "criadapter.service")
	found := exposure.FindStringSubmatch(output)
	testutil.Require(m.t, code == 0 && found != nil, "systemd-analyze security: exit code %d: %s", code, output)
	if level, err := strconv.ParseFloat(found[1], 64); err != nil || level > mostExposure {
		m.t.Errorf("%s, at most %.1f is right:\n%s", found[0], mostExposure, output)
	}
	m.t.Logf("systemd says: %s", found[0])
}
