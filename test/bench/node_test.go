package main

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestShimsOfAContainerd(t *testing.T) {
	for line, want := range map[string]bool{
		"/usr/bin/containerd-shim-runc-v2\x00-namespace\x00moby\x00-id\x00x\x00" +
			"-address\x00/a/b/containerd.sock\x00": true,

		"containerd-shim-runc-v2\x00-address\x00/a/bc/containerd.sock\x00": false,
		"containerd\x00-address\x00/a/b/containerd.sock\x00":               false,
		"containerd-shim-runc-v2\x00-address\x00":                          false,
		"": false,
	} {
		testutil.Equal(t, isShimOf([]byte(line), "/a/b"), want, "%q", line)
	}
}
