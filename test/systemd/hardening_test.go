package systemd

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// mostExposure is the largest allowed exposure of the unit, as systemd computes it. A unit without any hardening has
// 9.6 of 10. Further options would make a mount namespace, take rights that CNI plugins need, or reach commands in
// containers.
const mostExposure = 9.5

// exposure is the last line of systemd-analyze security.
var exposure = regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)

// TestUnitsMakeNoMountNamespace checks that the units have no option that makes a mount namespace. A network namespace
// that is pinned in a mount namespace would be invisible to the engine and to the next start.
func TestUnitsMakeNoMountNamespace(t *testing.T) {
	makes := regexp.MustCompile(`(?m)^(Private(Tmp|Devices|Mounts|Users|Network|IPC)|Protect(System|Home|KernelTunables|KernelModules|KernelLogs|ControlGroups|Proc|Hostname|Clock)|` +
		`(ReadWrite|ReadOnly|Inaccessible|Exec|NoExec)Paths|Bind(ReadOnly)?Paths|TemporaryFileSystem|Root(Directory|Image)|MountFlags|ProcSubset|DynamicUser|RestrictNamespaces|NoNewPrivileges)=`)
	for unit, content := range units(t) {
		found := makes.FindAllString(content, -1)
		testutil.Assert(t, len(found) == 0, "%s has %q", unit, found)
		for _, line := range []string{"DevicePolicy=closed", "LimitCORE=0"} {
			testutil.Assert(t, strings.Contains(content, "\n"+line+"\n"), "%s lacks %s", unit, line)
		}
	}
}

// units returns the contents of criadapter's units, by name.
func units(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range []string{"../../contrib/systemd/criadapter.service",
		"../../packaging/cri-docker/cri-docker.service"} {
		all[filepath.Base(path)] = testutil.ReadFile(t, path)
	}
	return all
}

// TestUnitsConfineNoCommands checks that the units have no option that a command in a container would inherit.
// criadapter starts runc for commands, and ociexec leaves a command to the engine if the command would inherit
// anything. The resource limits and the OOM score are not in the list, because a command gets its own.
func TestUnitsConfineNoCommands(t *testing.T) {
	inherited := regexp.MustCompile(`(?m)^(SystemCall\w*|LockPersonality|Personality|Restrict\w*|MemoryDenyWriteExecute|Protect\w*|` +
		`NoNewPrivileges|CapabilityBoundingSet|AmbientCapabilities|SecureBits|UMask|KeyringMode|Nice|CPU(Affinity|Scheduling\w*)|NUMA\w*|` +
		`IOScheduling\w*|TimerSlackNSec|CoredumpFilter|IgnoreSIGPIPE|User|Group|SupplementaryGroups|PAMName|` +
		`(AppArmor|Smack|SELinux)\w*)=`)
	for unit, content := range units(t) {
		found := inherited.FindAllString(content, -1)
		testutil.Assert(t, len(found) == 0, "%s has %q, which commands in containers inherit from criadapter", unit,
			found)
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
	m.inheritsNothing(pid)
	testutil.Equal(m.t, m.show("DevicePolicy"), "closed", "the service's device policy")
	output, code := m.run("systemd-analyze", "verify", "--man=no", "/etc/systemd/system/criadapter.service")
	testutil.Assert(m.t, code == 0 && !strings.Contains(output, "criadapter."),
		"systemd-analyze verify: exit code %d: %s", code, output)
	output, code = m.run("systemd-analyze", "security", "--no-pager", "criadapter.service")
	found := exposure.FindStringSubmatch(output)
	testutil.Require(m.t, code == 0 && found != nil, "systemd-analyze security: exit code %d: %s", code, output)
	if level, err := strconv.ParseFloat(found[1], 64); err != nil || level > mostExposure {
		m.t.Errorf("%s, want at most %.1f:\n%s", found[0], mostExposure, output)
	}
	m.t.Logf("systemd says: %s", found[0])
}

// inheritsNothing checks that the process has the same rights as systemd itself. Then a command in a container has the
// same rights whether criadapter or the engine starts it.
func (m *machine) inheritsNothing(pid string) {
	m.t.Helper()
	const fields = "^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp|Seccomp_filters|Cpus_allowed):"
	testutil.Equal(m.t, m.must("grep", "-E", fields, "/proc/"+pid+"/status"),
		m.must("grep", "-E", fields, "/proc/1/status"), "the service's rights, beside systemd's")
	for _, file := range []string{"personality", "timerslack_ns", "coredump_filter"} {
		testutil.Equal(m.t, m.must("cat", "/proc/"+pid+"/"+file), m.must("cat", "/proc/1/"+file),
			"the service's %s, beside systemd's", file)
	}
}
