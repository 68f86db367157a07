package cni

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/containernetworking/cni/libcni"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestCapabilityArgs(t *testing.T) {
	tests := []struct {
		name string
		pod  Pod
		want string
	}{
		{"nothing set passes nothing", Pod{}, `{}`},
		{
			"only ports with a host port",
			Pod{PortMappings: []PortMapping{
				{HostPort: 8080, ContainerPort: 80, Protocol: "TCP", HostIP: "127.0.0.1"},
				{ContainerPort: 443},
				{HostPort: 5353, ContainerPort: 53, Protocol: "UDP", HostIP: "::1"},
				{HostPort: 9, ContainerPort: 9},
				{HostPort: 10, ContainerPort: 10, Protocol: "sctp"},
			}},
			`{"portMappings":[` +
				`{"hostPort":8080,"containerPort":80,"protocol":"tcp","hostIP":"127.0.0.1"},` +
				`{"hostPort":5353,"containerPort":53,"protocol":"udp","hostIP":"::1"},` +
				`{"hostPort":9,"containerPort":9,"protocol":"tcp"},` +
				`{"hostPort":10,"containerPort":10,"protocol":"sctp"}]}`,
		},
		{"no host port, no capability", Pod{PortMappings: []PortMapping{{ContainerPort: 443}}}, `{}`},
		{
			"dns",
			Pod{DNS: DNS{Servers: []string{"10.0.0.10"}, Searches: []string{"a.b", "b"}, Options: []string{"ndots:5"}}},
			`{"dns":{"servers":["10.0.0.10"],"searches":["a.b","b"],"options":["ndots:5"]}}`,
		},
		{"dns with servers only", Pod{DNS: DNS{Servers: []string{"::1"}}}, `{"dns":{"servers":["::1"]}}`},
		{"cgroup path", Pod{CgroupPath: "/kubepods/pod1"}, `{"cgroupPath":"/kubepods/pod1"}`},
		{
			"annotations", Pod{Annotations: map[string]string{"a": "b;c=d"}},
			`{"io.kubernetes.cri.pod-annotations":{"a":"b;c=d"}}`,
		},
		{
			"one direction of bandwidth",
			Pod{Annotations: map[string]string{ingressBandwidth: "10M"}},
			`{"bandwidth":{"ingressRate":10000000,"ingressBurst":2147483647},` +
				`"io.kubernetes.cri.pod-annotations":{"kubernetes.io/ingress-bandwidth":"10M"}}`,
		},
		{
			"both directions of bandwidth",
			Pod{Annotations: map[string]string{ingressBandwidth: "1k", egressBandwidth: "1P"}},
			`{"bandwidth":{"ingressRate":1000,"ingressBurst":2147483647,"egressRate":1000000000000000,"egressBurst":2147483647},` +
				`"io.kubernetes.cri.pod-annotations":{"kubernetes.io/egress-bandwidth":"1P","kubernetes.io/ingress-bandwidth":"1k"}}`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			args, err := test.pod.capabilityArgs()
			must(t, err)
			got, err := json.Marshal(args)
			must(t, err)
			testutil.Assert(t, string(got) == test.want, "got  %s\nwant %s", got, test.want)
		})
	}
}

func TestRuntimeConf(t *testing.T) {
	rt, err := Pod{ID: "0123abcd", Name: "web", Namespace: "shop", UID: "u-1", NetnsPath: "/run/netns/x"}.runtimeConf()
	must(t, err)
	var args []string
	for _, kv := range rt.Args {
		args = append(args, kv[0]+"="+kv[1])
	}
	want := "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=0123abcd;K8S_POD_UID=u-1"
	testutil.Equal(t, strings.Join(args, ";"), want, "CNI_ARGS")
	testutil.Assert(t, rt.ContainerID == "0123abcd" && rt.NetNS == "/run/netns/x" && rt.IfName == "eth0", "got %+v", rt)
}

// A mapping without a host port is left out. A CRI message may have a mapping whose fields are all missing.
func TestEmptyPortMapping(t *testing.T) {
	pod := Pod{ID: "a", NetnsPath: "/run/netns/x", PortMappings: []PortMapping{{}}}
	rt, err := pod.runtimeConf()
	testutil.Assert(t, err == nil && len(rt.CapabilityArgs) == 0, "got %+v, %v", rt, err)
}

func TestBadPodNamesTheField(t *testing.T) {
	port := func(m PortMapping) Pod { return Pod{PortMappings: []PortMapping{{ContainerPort: 1}, m}} }
	tests := []struct {
		name, field string
		pod         Pod
	}{
		{"no id", "pod.id", Pod{}},
		{"id with a slash", "pod.id", Pod{ID: "../x"}},
		{"no namespace path", "pod.netnsPath", Pod{ID: "a"}},
		{"relative namespace path", "pod.netnsPath", Pod{ID: "a", NetnsPath: "run/netns/x"}},
		{"name that forges an argument", "pod.name", Pod{Name: "a;K8S_POD_NAMESPACE=kube-system"}},
		{"namespace with =", "pod.namespace", Pod{Namespace: "a=b"}},
		{"uid with NUL", "pod.uid", Pod{UID: "a\x00"}},
		{"negative host port", "pod.portMappings[1].hostPort", port(PortMapping{HostPort: -1, ContainerPort: 1})},
		{"host port too high", "pod.portMappings[1].hostPort", port(PortMapping{HostPort: 65536, ContainerPort: 1})},
		{"no container port", "pod.portMappings[1].containerPort", port(PortMapping{HostPort: 1})},
		{"container port too high", "pod.portMappings[1].containerPort", port(PortMapping{ContainerPort: 65536})},
		{"protocol", "pod.portMappings[1].protocol", port(PortMapping{ContainerPort: 1, Protocol: "icmp"})},
		{"host IP", "pod.portMappings[1].hostIP", port(PortMapping{ContainerPort: 1, HostIP: "localhost"})},
		{"ingress", `pod.annotations["kubernetes.io/ingress-bandwidth"]`,
			Pod{Annotations: map[string]string{ingressBandwidth: "fast"}}},
		{"egress", `pod.annotations["kubernetes.io/egress-bandwidth"]`,
			Pod{Annotations: map[string]string{egressBandwidth: "1"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := test.pod
			if pod.ID == "" && test.field != "pod.id" {
				pod.ID, pod.NetnsPath = "a", "/run/netns/x"
			}
			_, err := pod.runtimeConf()
			testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.HasPrefix(err.Error(), test.field+": "),
				"want InvalidArgument for %s, got %v", test.field, err)
		})
	}
}

// TestUnserved checks that a network without a plugin for host ports or bandwidth does not serve them.
func TestUnserved(t *testing.T) {
	args := map[string]any{capPortMappings: 1, capBandwidth: 1, capDNS: 1}
	for declared, want := range map[string][]string{
		"":                                      {capPortMappings, capBandwidth},
		`"portMappings":true`:                   {capBandwidth},
		`"portMappings":false,"bandwidth":true`: {capPortMappings},
	} {
		list, err := libcni.ConfListFromBytes([]byte(`{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge"},` +
			`{"type":"more","capabilities":{` + declared + `}}]}`))
		testutil.Must(t, err)
		got := unserved(list, args)
		testutil.Assert(t, slices.Equal(got, want), "with %q: %v, want %v", declared, got, want)
		testutil.Assert(t, len(unserved(list, nil)) == 0, "a pod that needs nothing")
	}
}
