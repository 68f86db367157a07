package streaming

import (
	"net"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestBindAddress(t *testing.T) {
	tests := map[string]struct {
		opts    Options
		refused func(error) bool
	}{
		"loopback":                {Options{Address: "127.0.0.1:0"}, nil},
		"any loopback":            {Options{Address: "127.8.9.1:10010"}, nil},
		"IPv6 loopback":           {Options{Address: "[::1]:0"}, nil},
		"a name of loopback":      {Options{Address: "localhost:0"}, nil},
		"all addresses":           {Options{Address: "0.0.0.0:0"}, errdefs.IsFailedPrecondition},
		"all IPv6 addresses":      {Options{Address: "[::]:0"}, errdefs.IsFailedPrecondition},
		"all addresses, unnamed":  {Options{Address: ":10010"}, errdefs.IsFailedPrecondition},
		"another address":         {Options{Address: "192.0.2.1:0"}, errdefs.IsFailedPrecondition},
		"another address and TLS": {Options{Address: "192.0.2.1:0", CertFile: "a", KeyFile: "b"}, nil},
		"another, allowed":        {Options{Address: "192.0.2.1:0", AllowPlaintext: true}, nil},
		"no port":                 {Options{Address: "127.0.0.1"}, errdefs.IsInvalidArgument},
		"nonsense":                {Options{Address: "127.0.0.1:http:1"}, errdefs.IsInvalidArgument},
	}
	for name, tt := range tests {
		_, err := bindAddress(tt.opts)
		if tt.refused == nil && err != nil || tt.refused != nil && !tt.refused(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBaseURL(t *testing.T) {
	tests := []struct {
		bound     string
		encrypted bool
		want      string
	}{
		{"127.0.0.1:4", false, "http://127.0.0.1:4"},
		{"[::1]:4", true, "https://[::1]:4"},
		{"0.0.0.0:4", true, "https://127.0.0.1:4"},
		{"[::]:4", false, "http://127.0.0.1:4"},
		{"192.0.2.1:4", true, "https://192.0.2.1:4"},
	}
	for _, tt := range tests {
		bound, err := net.ResolveTCPAddr("tcp", tt.bound)
		testutil.Must(t, err)
		testutil.Equal(t, baseURL(bound, tt.encrypted).String(), tt.want, "%s", tt.bound)
	}
}
