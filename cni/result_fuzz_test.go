package cni

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/criadapter/criadapter/internal/testutil"
)

// FuzzResult reads a plugin's output. Any output becomes a result with addresses and JSON, or an error.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/x"}],"ips":[{"address":"10.0.0.2/24","interface":0}]}`))
	f.Add([]byte(`{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.2/24"}}`))
	f.Add([]byte(`{"cniVersion":"1.1.0","ips":[null,{"address":"fd00::2/64","interface":7}],"interfaces":[null]}`))
	f.Add([]byte(`{"cniVersion":"9.9.9"}`))
	f.Add([]byte(`not JSON`))
	f.Fuzz(func(t *testing.T, printed []byte) {
		parsed, err := create.CreateFromBytes(printed)
		if err != nil {
			return
		}
		result, err := newResult("net", parsed)
		if err != nil {
			return
		}
		testutil.Assert(t, len(result.IPs) != 0 && json.Valid(result.Raw), "%q became %+v", printed, result)
		for _, ip := range result.IPs {
			_, err := netip.ParseAddr(ip)
			testutil.Assert(t, err == nil, "%q became the address %q", printed, ip)
		}
	})
}
