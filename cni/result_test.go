package cni

import (
	"slices"
	"testing"

	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Results in which containerd finds a pod's addresses are accepted here as well. The addresses of the node's eth0 are
// not the pod's.
func TestAddressesOfThePodsInterface(t *testing.T) {
	for name, tt := range map[string]struct {
		printed string
		want    []string // nil for an error
	}{
		"in the pod's namespace": {`"interfaces":[{"name":"eth0","sandbox":"/x"}],"ips":[{"address":"10.0.0.2/8","interface":0}]`, []string{"10.0.0.2"}},
		"without a namespace": {`"interfaces":[{"name":"eth0"}],"ips":[{"address":"10.0.0.2/8","interface":0}]`,
			[]string{"10.0.0.2"}},
		"no interface named": {`"ips":[{"address":"10.0.0.2/8"},{"address":"fd00::2/64"}]`,
			[]string{"10.0.0.2", "fd00::2"}},
		"one named, one not":       {`"interfaces":[{"name":"eth0"}],"ips":[{"address":"10.0.0.2/8"},{"address":"fd00::2/64","interface":0}]`, []string{"10.0.0.2", "fd00::2"}},
		"beside the node's eth0":   {`"interfaces":[{"name":"eth0"},{"name":"eth0","sandbox":"/x"}],"ips":[{"address":"10.0.0.1/8","interface":0},{"address":"10.0.0.2/8","interface":1}]`, []string{"10.0.0.2"}},
		"of the node's eth0 alone": {`"interfaces":[{"name":"eth0"},{"name":"eth0","sandbox":"/x"}],"ips":[{"address":"10.0.0.1/8","interface":0}]`, nil},
		"of another interface":     {`"interfaces":[{"name":"cali1"},{"name":"eth0"}],"ips":[{"address":"10.0.0.1/8","interface":0}]`, nil},
		"of an interface not listed": {`"interfaces":[{"name":"eth0"}],"ips":[{"address":"10.0.0.1/8","interface":1}]`,
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := create.CreateFromBytes([]byte(`{"cniVersion":"1.0.0",` + tt.printed + `}`))
			must(t, err)
			result, err := newResult("net", parsed)
			if tt.want == nil {
				testutil.Assert(t, err != nil, "the result is %+v, want an error", result)
				return
			}
			must(t, err)
			testutil.Assert(t, slices.Equal(result.IPs, tt.want), "the addresses are %v, want %v", result.IPs, tt.want)
		})
	}
}
