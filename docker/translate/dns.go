package translate

import (
	"net/netip"
	"strings"
	"unicode"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// checkDNS rejects values that would break resolv.conf. Servers must be IP addresses, search domains and options single
// words.
func checkDNS(field string, dns *runtimeapi.DNSConfig) error {
	for i, server := range dns.GetServers() {
		if _, err := netip.ParseAddr(server); err != nil {
			return invalid(item(field+".servers", i), "%q is not an IP address", server)
		}
	}
	for i, domain := range dns.GetSearches() {
		if err := checkWord(item(field+".searches", i), domain); err != nil {
			return err
		}
	}
	for i, option := range dns.GetOptions() {
		if err := checkWord(item(field+".options", i), option); err != nil {
			return err
		}
	}
	return nil
}

func checkWord(field, word string) error {
	if word == "" {
		return invalid(field, "is empty")
	}
	if strings.ContainsFunc(word, unicode.IsSpace) {
		return invalid(field, "%q holds white space", word)
	}
	return checkText(field, word)
}
