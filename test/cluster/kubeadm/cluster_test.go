package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/cluster/build"
)

func TestManifestsTakeImagesFromTheRegistry(t *testing.T) {
	for _, one := range []struct{ name, got, want string }{
		{"Flannel", adaptFlannel(`
        image: ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel3
        image: ghcr.io/flannel-io/flannel:v0.28.10
      "cniVersion": "1.0.0",
`), `
        image: registry.example:5000/flannel-cni-plugin:module
        image: registry.example:5000/flannel:module
      "cniVersion": "0.4.0",
`},
		{"Multus", multusManifest(`
  # - "--multus-conf-file=auto"
        image: ghcr.io/k8snetworkplumbingwg/multus-cni:snapshot
        args:
        - "--multus-conf-file=auto"
        - "--cni-conf-dir=/host/etc/cni/net.d"
        image: ghcr.io/k8snetworkplumbingwg/multus-cni:snapshot
`), `
  # - "--multus-conf-file=auto"
        image: registry.example:5000/multus-cni:module
        args:
        - "--multus-conf-file=auto"
        - --cleanup-config-on-exit
        - "--cni-conf-dir=/host/etc/cni/net.d"
        image: registry.example:5000/multus-cni:module
`},
		{"metrics-server", metricsManifest(`
      - args:
        - --cert-dir=/tmp
        - --secure-port=10250
        image: gcr.io/k8s-staging-metrics-server/metrics-server:master
`), `
      - args:
        - --cert-dir=/tmp
        - --kubelet-insecure-tls
        - --secure-port=10250
        image: registry.example:5000/metrics-server:module
`},
	} {
		testutil.Assert(t, one.got == one.want, "%s: got%swant%s", one.name, one.got, one.want)
	}
}

func TestStepsOfTheCommandLine(t *testing.T) {
	t.Setenv("RUNTIME_MODE", "")
	chosen, err := options{check: true, run: "^(DNS|Drain)$", node2: runtimeContainerd, family: familyIPv4}.steps()
	testutil.Must(t, err)
	var names []string
	for _, s := range chosen {
		names = append(names, s.name)
	}
	testutil.Assert(t, reflect.DeepEqual(names, []string{"DNS", "Drain"}), "steps %v", names)
	for want, wrong := range map[string]options{
		"-run: ":                {check: true, run: "(", node2: runtimeCriadapter, family: familyIPv4},
		"-node2":                {node2: "cri-o", family: familyIPv4},
		"-family":               {node2: runtimeCriadapter, family: "ipx"},
		"-run names":            {run: "DNS", node2: runtimeCriadapter, family: familyIPv4},
		"-focus names":          {focus: "DNS", node2: runtimeCriadapter, family: familyIPv4},
		"-check and -certified": {check: true, certified: true, node2: runtimeCriadapter, family: familyIPv4},
		"-network":              {node2: runtimeCriadapter, family: familyIPv4, network: "weave"},
		"-network calico: with": {node2: runtimeCriadapter, family: familyDual, network: networkCalico},
		`-run "Minikube": no`: {check: true, run: "Minikube", node2: runtimeCriadapter, family: familyIPv4,
			network: networkCalico},
		`-run "NetworkPolicy": no`: {check: true, run: "NetworkPolicy", node2: runtimeCriadapter, family: familyIPv6},
	} {
		if _, err := wrong.steps(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", wrong, err, want)
		}
	}
}

// RUNTIME_MODE may only be empty or oci, because the engines of a cluster have no other mode. Any other value would
// only give the run a wrong name.
func TestModesOfACluster(t *testing.T) {
	for mode, good := range map[string]bool{"": true, "oci": true, "container": false, "../x": false} {
		t.Setenv("RUNTIME_MODE", mode)
		_, err := options{certified: true, node2: runtimeCriadapter, family: familyIPv4}.steps()
		testutil.Assert(t, (err == nil) == good, "RUNTIME_MODE=%s: %v", mode, err)
	}
}

// With -cached the certified suite and Calico need their own programs, too.
func TestMissingPrograms(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, o := range []options{{}, {certified: true}, {network: networkCalico}, {network: networkCilium}} {
		o.family = familyIPv4
		missing, err := o.missingPrograms(t.Context())
		testutil.Must(t, err)
		testutil.Assert(t, slices.Contains(missing, "kubeadm") &&
			slices.Contains(missing, "hydrophone") == o.certified &&
			slices.Contains(missing, "calico-node") == (o.network == networkCalico) &&
			slices.Contains(missing, "cilium-agent") == (o.network == networkCilium), "%+v: %q", o, missing)
	}
}

// The images are cached by their recipes, which must be the same each time.
func TestRecipesAreStable(t *testing.T) {
	programs := build.Programs{Etcd: "/etcd", KubeProxy: "/kube-proxy"}
	first := recipes(programs, "/base.tar")
	testutil.Assert(t, reflect.DeepEqual(first, recipes(programs, "/base.tar")), "two different lists")
	for _, one := range first {
		testutil.Assert(t, len(one.Files) > 0 && !strings.Contains(one.Name, ":"), "recipe %+v", one)
	}
}
