package model

import (
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestPodAddresses(t *testing.T) {
	for _, test := range []struct{ ips, node, want string }{
		{"", "192.0.2.1", ""},
		{"10.0.0.1", "192.0.2.1", "10.0.0.1"},
		{"10.0.0.1", "2001:db8::1", "10.0.0.1"},
		{"fd00::1 10.0.0.1", "192.0.2.1", "10.0.0.1 fd00::1"},
		{"10.0.0.1 fd00::1", "2001:db8::1", "fd00::1 10.0.0.1"},
		{"10.0.0.1 10.0.0.2 fd00::1 fd00::2", "192.0.2.1", "10.0.0.1 fd00::1"},
		{"fd00::1 10.0.0.1", "", "10.0.0.1 fd00::1"},
	} {
		got := PodAddresses(strings.Fields(test.ips), test.node)
		testutil.Equal(t, strings.Join(got, " "), test.want, "addresses of %q on the node %q", test.ips, test.node)
	}
}
