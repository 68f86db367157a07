package podspec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/bounded"
)

const (
	hostResolvConf = "/etc/resolv.conf"
	// resolvedConf has the upstream servers of systemd-resolved's stub; see systemd-resolved.service(8).
	resolvedConf = "/run/systemd/resolve/resolv.conf"
	resolvedStub = "127.0.0.53"
	// maxResolvConf is the size in bytes from which a file is refused, as in the kubelet.
	maxResolvConf = 10 << 20
)

// hostDNS returns the host's own resolver configuration.
func (g *Generator) hostDNS() (*runtimeapi.DNSConfig, error) {
	if g.opts.ResolvConf != "" {
		return readResolvConf(g.opts.ResolvConf)
	}
	dns, err := readResolvConf(hostResolvConf)
	if err != nil || len(dns.Servers) != 1 || dns.Servers[0] != resolvedStub {
		return dns, err
	}
	behind, err := readResolvConf(resolvedConf)
	if errors.Is(err, fs.ErrNotExist) {
		return dns, nil
	}
	return behind, err
}

func readResolvConf(path string) (*runtimeapi.DNSConfig, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("resolver configuration: %w", err)
	}
	defer file.Close()
	content, err := bounded.ReadAll(file, path, maxResolvConf-1)
	if err != nil {
		return nil, fmt.Errorf("resolver configuration: %w", err)
	}
	return parseResolvConf(string(content)), nil
}

// parseResolvConf parses resolv.conf(5): servers are collected, the last search counts, and options are collected with
// the last value of each name. Unknown lines are ignored, as the resolver does.
func parseResolvConf(content string) *runtimeapi.DNSConfig {
	dns := &runtimeapi.DNSConfig{}
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			dns.Servers = append(dns.Servers, fields[1])
		case "search":
			dns.Searches = nil
			for _, domain := range fields[1:] {
				if domain != "." {
					dns.Searches = append(dns.Searches, strings.TrimSuffix(domain, "."))
				}
			}
		case "options":
			for _, option := range fields[1:] {
				dns.Options = setOption(dns.Options, option)
			}
		}
	}
	return dns
}

// setOption replaces the option of the same name, or appends it.
func setOption(options []string, option string) []string {
	name, _, _ := strings.Cut(option, ":")
	for i := range options {
		if have, _, _ := strings.Cut(options[i], ":"); have == name {
			options[i] = option
			return options
		}
	}
	return append(options, option)
}
