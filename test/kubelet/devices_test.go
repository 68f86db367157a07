package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/devicemanager/devicemanagertest"
)

// TestDevicePlugin: a container gets a device, and keeps the device when it restarts, even if a new kubelet restarts
// it. A pod that wants more devices than there are is rejected.
func TestDevicePlugin(t *testing.T) {
	dir, err := os.MkdirTemp("", "plugins-") // a socket's path is short
	testutil.Must(t, err)
	t.Cleanup(func() { testutil.Check(t, os.RemoveAll(dir)) })
	n := newNode(t, "--device-plugins-dir", dir)
	const resource = "example.com/card"
	pod := func(name string, count int) {
		n.write(name+".yaml", testutil.PodYAML(name, fmt.Sprintf(`
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: SHELL
    command: [sh, -c, "echo $CARDS; ls /dev | grep card; echo x > /dev/card-a && echo written; ls /cards; sleep 1000"]
    resources: {limits: {%s: %d}}
`, resource, count)))
	}
	pod("first", 1)
	n.until("first", wantWaiting("main", "no device plugin has registered it", "CreateContainerConfigError"))
	options := &pluginapi.DevicePluginOptions{PreStartRequired: true}
	plugin := devicemanagertest.Start(t, dir, resource, options, "a", "b")
	first := n.ready("first")
	n.logHas(first, "main", 0, "a\ncard-a\nwritten\n")
	testutil.Equal(t, fmt.Sprint(plugin.Calls()), "[Allocate a PreStartContainer a]", "calls")

	pod("second", 2)
	n.until("second", func(pod *v1.Pod) error {
		if pod.Status.Reason != "OutOf"+resource {
			return fmt.Errorf("reason %q: %s", pod.Status.Reason, pod.Status.Message)
		}
		return nil
	})
	n.stop()
	plugin.Stop()
	n.start()
	// As the kubelet does, kubelet-core removes the plugins' sockets before it makes its own.
	testutil.Until(t, "plugins can register", func() bool {
		_, err := os.Stat(filepath.Join(dir, "kubelet.sock"))
		return err == nil
	})
	plugin = devicemanagertest.Start(t, dir, resource, options, "b", "a")
	n.killContainers(id(n.ready("first"), "main"))
	n.logHas(n.restarted("first", "main", 1), "main", 1, "a\ncard-a\nwritten\n")
	testutil.Equal(t, fmt.Sprint(plugin.Calls()), "[PreStartContainer a]", "calls after the restart")
}
