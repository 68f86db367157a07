package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// cdiKind is the vendor and class of the devices of TestCDIDevices.
const cdiKind = "criadapter.test/device"

// writeCDI describes devices where every runtime looks; the rig has a /run of its own.
func (n *fieldsNode) writeCDI() {
	n.Helper()
	path := "/var/run/cdi/criadapter-test.json"
	n.Cleanup(func() { _ = os.Remove(path) })
	testutil.WriteFile(n.T, path, fmt.Sprintf(`{
		"cdiVersion": "0.6.0", "kind": %q, "containerEdits": {"env": ["CDI_KIND=any"]},
		"devices": [
			{"name": "full", "containerEdits": {
				"env": ["CDI_FULL=yes"],
				"deviceNodes": [{"path": "/dev/cdi", "hostPath": "/dev/full", "permissions": "rw"}],
				"mounts": [{"hostPath": %q, "containerPath": "/cdi", "options": ["rbind", "ro", "nosuid"]}],
				"hooks": [{"hookName": "createRuntime", "path": "/bin/sh", "args": ["sh", "-c", "cat >%s/hook"]}]
			}},
			{"name": "more", "containerEdits": {"env": ["CDI_MORE=yes"]}}
		]}`, cdiKind, n.dir, n.dir))
}

// TestCDIDevices asks for one device by its field, and for another device by an annotation. Engines that know CDI
// inject the devices. On other engines, criadapter-oci injects them.
func TestCDIDevices(t *testing.T) {
	n := newFieldsNode(t)
	n.pod = runSandbox(t, n.server, n.config)
	testutil.Must(n, os.MkdirAll(n.dir, 0o777))
	n.writeCDI()
	config := noted("devices",
		&runtimeapi.LinuxContainerSecurityContext{RunAsUser: &runtimeapi.Int64Value{Value: 1234},
			RunAsGroup: &runtimeapi.Int64Value{Value: 5678}})
	config.CDIDevices = []*runtimeapi.CDIDevice{{Name: cdiKind + "=full"}}
	config.Annotations = map[string]string{"cdi.k8s.io/claim": cdiKind + "=more"}
	id, pid := n.run(config)
	testutil.Eventually(n, func() error { // the process may still be runc's, a moment after the start
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		for _, want := range []string{"CDI_KIND=any", "CDI_FULL=yes", "CDI_MORE=yes"} {
			if err == nil && !strings.Contains(string(environ), want+"\x00") {
				err = fmt.Errorf("the environment lacks %s: %q", want, environ)
			}
		}
		return err
	})
	same(t, "the variables of a command", n.sh(id, "echo $CDI_KIND $CDI_FULL $CDI_MORE"), "any yes yes")
	same(t, "a write to the device inside", n.sh(id, "echo x >/dev/cdi"), "sh: write error: No space left on device")
	same(t, "its owner", n.sh(id, "stat -c '%u %g' /dev/cdi"), "1234 5678")
	info, err := os.Stat(fmt.Sprintf("/proc/%d/root/dev/cdi", pid))
	testutil.Assert(t, err == nil && info.Mode()&os.ModeCharDevice != 0, "from outside the device is %v, %v", info,
		err)
	line := n.mountAt(pid, "/cdi")
	testutil.Assert(t, strings.Contains(line, " ro,nosuid"), "from outside the mount is %q", line)
	state, err := os.ReadFile(filepath.Join(n.dir, "hook"))
	testutil.Assert(t, err == nil && strings.Contains(string(state), id), "the hook got %q, %v", state, err)
	n.unknownCDIDevice(t)
}

// unknownCDIDevice asks for a device without a specification: some engines refuse the create, others the start.
func (n *fieldsNode) unknownCDIDevice(t *testing.T) {
	config := noted("unknown", nil)
	config.CDIDevices = []*runtimeapi.CDIDevice{{Name: cdiKind + "=none"}}
	id, err := n.create(config)
	if err == nil {
		err = n.server.Runtime.StartContainer(t.Context(), id)
	}
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), cdiKind+"=none"), "got %v", err)
}
