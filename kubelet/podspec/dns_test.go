package podspec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func dnsText(dns *runtimeapi.DNSConfig) string {
	return fmt.Sprintf("%v %v %v", dns.GetServers(), dns.GetSearches(), dns.GetOptions())
}

func TestDNSPolicies(t *testing.T) {
	cluster := func(o *Options) { o.ClusterDNS, o.ClusterDomain = []string{"10.96.0.10"}, "cluster.local" }
	const (
		host      = "[192.0.2.1] [example.org] [timeout:3]"
		inCluster = "[10.96.0.10] [shop.svc.cluster.local svc.cluster.local cluster.local example.org] [ndots:5]"
	)
	for _, c := range []struct {
		name        string
		options     func(*Options)
		policy      v1.DNSPolicy
		hostNetwork bool
		config      *v1.PodDNSConfig
		want        string
	}{
		{"default", cluster, v1.DNSDefault, false, nil, host},
		{"cluster", cluster, v1.DNSClusterFirst, false, nil, inCluster},
		{"cluster in the host's network", cluster, v1.DNSClusterFirst, true, nil, host},
		{"cluster with the host's network", cluster, v1.DNSClusterFirstWithHostNet, true, nil, inCluster},
		{"cluster without one", nil, v1.DNSClusterFirst, false, nil, host},
		{"none", cluster, v1.DNSNone, false,
			&v1.PodDNSConfig{Nameservers: []string{"192.0.2.7"}, Options: []v1.PodDNSConfigOption{{Name: "rotate"}}},
			"[192.0.2.7] [] [rotate]"},
		{"more", cluster, v1.DNSDefault, false, &v1.PodDNSConfig{
			Nameservers: []string{"192.0.2.1", "192.0.2.2"}, Searches: []string{"a.b"},
			Options: []v1.PodDNSConfigOption{{Name: "timeout", Value: new("9")}, {Name: "rotate"}}},
			"[192.0.2.1 192.0.2.2] [example.org a.b] [timeout:9 rotate]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := testPod(func(p *v1.Pod) {
				p.Spec.DNSPolicy, p.Spec.HostNetwork, p.Spec.DNSConfig = c.policy, c.hostNetwork, c.config
			})
			dns, err := testGenerator(t, c.options).dns(pod)
			got := dnsText(dns)
			testutil.Assert(t, err == nil && got == c.want, "got %s, %v; want %s", got, err, c.want)
		})
	}
}

// TestMissingClusterDNS warns of each pod that requests the cluster's DNS and gets the machine's.
func TestMissingClusterDNS(t *testing.T) {
	for _, c := range []struct {
		policy      v1.DNSPolicy
		hostNetwork bool
		servers     []string
		want        string
	}{
		{v1.DNSClusterFirst, false, nil, "MissingClusterDNS"},
		{v1.DNSClusterFirstWithHostNet, true, nil, "MissingClusterDNS"},
		{v1.DNSClusterFirst, true, nil, ""},
		{v1.DNSDefault, false, nil, ""},
		{v1.DNSClusterFirst, false, []string{"10.96.0.10"}, ""},
	} {
		var reasons []string
		g := testGenerator(t, func(o *Options) {
			o.ClusterDNS = c.servers
			o.Warn = func(_ *v1.Pod, reason, _ string) { reasons = append(reasons, reason) }
		})
		_, err := g.dns(testPod(func(p *v1.Pod) { p.Spec.DNSPolicy, p.Spec.HostNetwork = c.policy, c.hostNetwork }))
		got := strings.Join(reasons, " ")
		testutil.Assert(t, err == nil && got == c.want, "%+v: warned of %q, %v", c, got, err)
	}
}

func TestDNSLimits(t *testing.T) {
	var told int
	g := testGenerator(t, func(o *Options) { o.Warn = func(*v1.Pod, string, string) { told++ } })
	config := &v1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"},
		Searches: []string{strings.Repeat("x", 254)}}
	for i := range 40 {
		config.Searches = append(config.Searches, fmt.Sprintf("d%d.test", i))
	}
	dns, err := g.dns(testPod(func(p *v1.Pod) { p.Spec.DNSPolicy, p.Spec.DNSConfig = v1.DNSNone, config }))
	testutil.Assert(t, err == nil && len(dns.GetServers()) == 3 && len(dns.GetSearches()) == 32 &&
		dns.GetSearches()[0] == "d0.test" && told == 2, "%d servers, %d searches from %q, warned %d times, %v",
		len(dns.GetServers()), len(dns.GetSearches()), dns.GetSearches()[:1], told, err)
	config.Searches = nil
	for i := range 20 {
		config.Searches = append(config.Searches, strings.Repeat("x", 200)+fmt.Sprint(i))
	}
	dns, err = g.dns(testPod(func(p *v1.Pod) { p.Spec.DNSPolicy, p.Spec.DNSConfig = v1.DNSNone, config }))
	size := len(strings.Join(dns.GetSearches(), " "))
	testutil.Assert(t, err == nil && size <= maxSearchesBytes && size >= maxSearchesBytes-210,
		"the search list has %d bytes, %v", size, err)
}

func TestParseResolvConf(t *testing.T) {
	const text = "# c\nnameserver 1.1.1.1\n; d\nnameserver\nnameserver 2.2.2.2 # e\nsearch old\nsearch a. . " +
		"b\noptions ndots:1 rotate\noptions ndots:2\nsortlist x\n"
	got, want := dnsText(parseResolvConf(text)), "[1.1.1.1 2.2.2.2] [a b] [ndots:2 rotate]"
	testutil.Assert(t, got == want, "got %s, want %s", got, want)
}

// TestLongResolvConf: a file that is too long is refused instead of cut.
func TestLongResolvConf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	for size, refused := range map[int]bool{maxResolvConf - 1: false, maxResolvConf: true, maxResolvConf + 1: true} {
		server := "\nnameserver 192.0.2.1"
		testutil.WriteFile(t, path, strings.Repeat("#", size-len(server))+server)
		dns, err := readResolvConf(path)
		testutil.Assert(t, (err != nil) == refused && (refused || len(dns.GetServers()) == 1), "%d bytes: %v, %v",
			size, dns, err)
	}
}

func FuzzParseResolvConf(f *testing.F) {
	for _, seed := range []string{"", "nameserver 1.1.1.1", "search a b.\noptions ndots:5 ndots:6", "options",
		"search .", "\x00 \n\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		dns := parseResolvConf(text)
		for _, value := range slices.Concat(dns.GetServers(), dns.GetSearches(), dns.GetOptions()) {
			testutil.Assert(t, !strings.ContainsAny(value, "\n "), "%q became the value %q", text, value)
		}
	})
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"", "$(A)", "$$(A)", "$(", "$", "$$", "$(B)$(A)", "$()", "x$(A", "$x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		none := expand(text, func(string) (string, bool) { return "", false })
		testutil.Assert(t, strings.Contains(text, "$$") || none == text,
			"%q became %q without any variable", text, none)
		all := expand(text, func(string) (string, bool) { return "", true })
		testutil.Assert(t, len(all) <= len(text), "%q became %q with empty variables", text, all)
	})
}
