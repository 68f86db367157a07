package services

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

func service(namespace, name, ip string, ports ...v1.ServicePort) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1.ServiceSpec{ClusterIP: ip, Ports: ports},
	}
}

func podIn(namespace string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
}

func TestEnvironment(t *testing.T) {
	list := New(nil)
	_, err := list.Environment(podIn("app"))
	testutil.Assert(t, err != nil, "no error before the first list")
	fill := store{list}
	fill.Replace([]*v1.Service{
		service("default", "kubernetes", "10.0.0.1", v1.ServicePort{Name: "https", Port: 443}),
		service("default", "other", "10.0.0.9", v1.ServicePort{Port: 9}),
		service("app", "headless", v1.ClusterIPNone, v1.ServicePort{Port: 1}),
	})
	fill.Set(service("app", "dns-cache", "fd00::5", v1.ServicePort{Port: 53, Protocol: v1.ProtocolUDP}))
	fill.Set(service("app", "gone", "10.0.0.3", v1.ServicePort{Port: 3}))
	fill.Delete(service("app", "gone", ""))
	fill.Set(service("own", "kubernetes", "10.0.0.7", v1.ServicePort{Name: "web", Port: 80}))
	fill.Set(service("bare", "kubernetes", v1.ClusterIPNone, v1.ServicePort{Name: "web", Port: 80}))

	master := map[string]string{
		"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443", "KUBERNETES_SERVICE_PORT_HTTPS": "443",
		"KUBERNETES_PORT": "tcp://10.0.0.1:443", "KUBERNETES_PORT_443_TCP": "tcp://10.0.0.1:443",
		"KUBERNETES_PORT_443_TCP_PROTO": "tcp", "KUBERNETES_PORT_443_TCP_PORT": "443",
		"KUBERNETES_PORT_443_TCP_ADDR": "10.0.0.1",
	}
	linked := maps.Clone(master)
	maps.Copy(linked, map[string]string{
		"DNS_CACHE_SERVICE_HOST": "fd00::5", "DNS_CACHE_SERVICE_PORT": "53", "DNS_CACHE_PORT": "udp://[fd00::5]:53",
		"DNS_CACHE_PORT_53_UDP": "udp://[fd00::5]:53", "DNS_CACHE_PORT_53_UDP_PROTO": "udp",
		"DNS_CACHE_PORT_53_UDP_PORT": "53", "DNS_CACHE_PORT_53_UDP_ADDR": "fd00::5",
	})
	own := map[string]string{
		"KUBERNETES_SERVICE_HOST": "10.0.0.7", "KUBERNETES_SERVICE_PORT": "80", "KUBERNETES_SERVICE_PORT_WEB": "80",
		"KUBERNETES_PORT": "tcp://10.0.0.7:80", "KUBERNETES_PORT_80_TCP": "tcp://10.0.0.7:80",
		"KUBERNETES_PORT_80_TCP_PROTO": "tcp", "KUBERNETES_PORT_80_TCP_PORT": "80",
		"KUBERNETES_PORT_80_TCP_ADDR": "10.0.0.7",
	}
	no := false
	unlinked, ownUnlinked := podIn("app"), podIn("own")
	unlinked.Spec.EnableServiceLinks, ownUnlinked.Spec.EnableServiceLinks = &no, &no
	static := podIn("app")
	static.Annotations = map[string]string{model.AnnotationConfigSource: model.SourceFile}
	for name, test := range map[string]struct {
		pod  *v1.Pod
		want map[string]string
	}{
		"links": {podIn("app"), linked}, "no links": {unlinked, master}, "static": {static, nil},
		"a service kubernetes of its namespace": {podIn("own"), own},
		"such a service without links":          {ownUnlinked, master},
		"such a service without an address":     {podIn("bare"), master},
	} {
		got, err := list.Environment(test.pod)
		testutil.Assert(t, err == nil && maps.Equal(got, test.want), "%s: %v, %v, want %v", name, got, err, test.want)
	}
}
