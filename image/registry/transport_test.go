package registry

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "Localhost": true, "127.0.0.1": true, "::1": true,
		"": false, "localhost.example.com": false, "10.0.0.1": false,
	} {
		testutil.Equal(t, loopback(host), want, "%q", host)
	}
}
