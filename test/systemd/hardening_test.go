package systemd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// inherited finds options that pass on to commands in containers, which then go through the engine.
var inherited = regexp.MustCompile(`(?m)^(CapabilityBoundingSet|LockPersonality|Restrict\w+|SystemCall\w+|Nice|CPUAffinity|CPUSchedulingPolicy)=`)

// TestUnitsMakeNoMountNamespace reads the units for each option that would make one: a pod's network namespace that is
// pinned there is seen neither by the engine nor by the next start.
func TestUnitsMakeNoMountNamespace(t *testing.T) {
	makes := regexp.MustCompile(`(?m)^(Private(Tmp|Devices|Mounts|Users|Network|IPC)|Protect(System|Home|KernelTunables|KernelModules|KernelLogs|ControlGroups|Proc|Hostname|Clock)|` +
		`(ReadWrite|ReadOnly|Inaccessible|Exec|NoExec)Paths|Bind(ReadOnly)?Paths|TemporaryFileSystem|Root(Directory|Image)|MountFlags|ProcSubset|DynamicUser|RestrictNamespaces|NoNewPrivileges)=`)
	for _, unit := range []string{"../../contrib/systemd/criadapter.service", "../../packaging/cri-docker/cri-docker.service"} {
		content, err := os.ReadFile(unit)
		testutil.Must(t, err)
		if found := makes.FindAllString(string(content), -1); len(found) > 0 {
			t.Errorf("%s has %q", filepath.Base(unit), found)
		}
		if found := inherited.FindAllString(string(content), -1); len(found) > 0 {
			t.Errorf("%s has %q, which commands in containers would inherit", filepath.Base(unit), found)
		}
		if !strings.Contains(string(content), "\nLimitCORE=0\n") {
			t.Errorf("%s lets a core be written", filepath.Base(unit))
		}
	}
}

// hardened looks at the process for what the unit's options made of it, and has systemd verify the unit.
func (m *machine) hardened() {
	m.t.Helper()
	pid := m.show("MainPID")
	if own, first := m.must("readlink", "/proc/"+pid+"/ns/mnt"), m.must("readlink", "/proc/1/ns/mnt"); own != first {
		m.t.Errorf("the service has a mount namespace of its own, %s beside %s", own, first)
	}
	if limits := m.must("grep", "^Max core file size", "/proc/"+pid+"/limits"); !regexp.MustCompile(`size +0 +0 `).MatchString(limits) {
		m.t.Errorf("a core may be written: %s", limits)
	}
	for _, field := range []string{"CapBnd", "Seccomp", "NoNewPrivs"} {
		if own, first := m.must("grep", "^"+field+":", "/proc/"+pid+"/status"), m.must("grep", "^"+field+":", "/proc/1/status"); own != first {
			m.t.Errorf("commands in containers inherit %s, and from the engine %s", own, first)
		}
	}
	if output, code := m.run("systemd-analyze", "verify", "--man=no", "/etc/systemd/system/criadapter.service"); code != 0 || strings.Contains(output, "criadapter.") {
		m.t.Errorf("systemd-analyze verify: exit code %d: %s", code, output)
	}
}
