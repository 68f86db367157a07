package peers

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/criadapter/criadapter/test/netdevice"
)

// PodNetwork is like the pod network that package test/rig/adapter makes for criadapter. It has another bridge and
// other addresses, a /22 below 10.89.0.0/16. Servers in one network namespace need different numbers, 0 to 63.
type PodNetwork struct{ Number int }

func (n PodNetwork) bridge() string { return fmt.Sprintf("peer%d", n.Number) }

// Write writes the CNI configuration into a new directory net.d in dir, and returns its path. The plugins keep their
// leases in dir, too.
func (n PodNetwork) Write(dir string) (string, error) {
	directory := filepath.Join(dir, "net.d")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return "", err
	}
	network := netdevice.Network{Name: n.bridge(), Bridge: n.bridge(), Subnet: fmt.Sprintf("10.89.%d.0/22", 4*n.Number)}
	conflist, err := network.Conflist(filepath.Join(dir, "ipam"))
	if err != nil {
		return "", err
	}
	return directory, os.WriteFile(filepath.Join(directory, "10-peer.conflist"), conflist, 0o644)
}

// Remove removes the bridge, which the CNI plugin made with the first pod.
func (n PodNetwork) Remove() error { return netdevice.RemoveBridge(n.bridge()) }
