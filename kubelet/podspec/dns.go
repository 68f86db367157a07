package podspec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The limits of resolvers, as in Kubernetes.
const (
	maxServers       = 3
	maxSearches      = 32
	maxSearchesBytes = 2048
)

// dns returns the pod's resolver configuration for its dnsPolicy and dnsConfig.
func (g *Generator) dns(pod *v1.Pod) (*runtimeapi.DNSConfig, error) {
	dns, err := g.policyDNS(pod)
	if err != nil {
		return nil, err
	}
	if more := pod.Spec.DNSConfig; more != nil {
		dns.Servers = distinct(append(dns.Servers, more.Nameservers...))
		dns.Searches = distinct(append(dns.Searches, more.Searches...))
		for _, option := range more.Options {
			text := option.Name
			if option.Value != nil && *option.Value != "" {
				text += ":" + *option.Value
			}
			dns.Options = setOption(dns.Options, text)
		}
	}
	g.limit(pod, dns)
	return dns, nil
}

func (g *Generator) policyDNS(pod *v1.Pod) (*runtimeapi.DNSConfig, error) {
	policy := pod.Spec.DNSPolicy
	if policy == v1.DNSNone {
		return &runtimeapi.DNSConfig{}, nil
	}
	host, err := g.hostDNS()
	if err != nil {
		return nil, err
	}
	cluster := false
	switch policy {
	case v1.DNSClusterFirst, "":
		cluster = !pod.Spec.HostNetwork
	case v1.DNSClusterFirstWithHostNet:
		cluster = true
	case v1.DNSDefault:
	default:
		return nil, fmt.Errorf("spec.dnsPolicy: %q is not a policy: %w", policy, errdefs.ErrInvalidArgument)
	}
	if cluster && len(g.opts.ClusterDNS) > 0 {
		return &runtimeapi.DNSConfig{
			Servers:  slices.Clone(g.opts.ClusterDNS),
			Searches: g.clusterSearches(pod, host.Searches),
			Options:  []string{"ndots:5"},
		}, nil
	}
	if cluster {
		g.opts.Warn(pod, "MissingClusterDNS",
			fmt.Sprintf(
				"No DNS server of the cluster is set (--cluster-dns) for dnsPolicy %s: the pod uses the machine's "+
					"DNS servers, as with Default.", policy))
	}
	return host, nil
}

func (g *Generator) clusterSearches(pod *v1.Pod, host []string) []string {
	domain := g.opts.ClusterDomain
	if domain == "" {
		return host
	}
	return distinct(append([]string{pod.Namespace + ".svc." + domain, "svc." + domain, domain}, host...))
}

// distinct keeps the first of equal values.
func distinct(values []string) []string {
	var kept []string
	for _, value := range values {
		if !slices.Contains(kept, value) {
			kept = append(kept, value)
		}
	}
	return kept
}

// limit cuts the configuration to the limits of resolvers, and warns.
func (g *Generator) limit(pod *v1.Pod, dns *runtimeapi.DNSConfig) {
	if len(dns.Servers) > maxServers {
		dns.Servers = dns.Servers[:maxServers]
		g.opts.Warn(pod, "DNSConfigForming",
			"Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "+
				strings.Join(dns.Servers, " "))
	}
	kept, size := []string{}, 0
	for _, domain := range dns.Searches {
		// Some versions of glibc abort with a longer domain.
		if len(domain) > validation.DNS1123SubdomainMaxLength {
			continue
		}
		if size += len(domain) + 1; len(kept) == maxSearches || size-1 > maxSearchesBytes {
			break
		}
		kept = append(kept, domain)
	}
	if len(kept) < len(dns.Searches) {
		g.opts.Warn(pod, "DNSConfigForming",
			"Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "+
				strings.Join(kept, " "))
		dns.Searches = kept
	}
}
