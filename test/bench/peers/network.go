package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
)

// PodNetwork is like the pod network that package test/rig/adapter makes for criadapter. Its bridge and its addresses,
// 10.89.Number.0/24, are others. Servers in one network namespace need different numbers, 1 to 254.
type PodNetwork struct{ Number int }

func (n PodNetwork) bridge() string { return fmt.Sprintf("peer%d", n.Number) }

// Write writes the CNI configuration into a new directory net.d in dir, and returns its path. The plugins keep their
// leases in dir, too.
func (n PodNetwork) Write(dir string) (string, error) {
	directory := filepath.Join(dir, "net.d")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return "", err
	}
	conflist, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0",
		"name":       n.bridge(),
		"plugins": []any{
			map[string]any{
				"type": "bridge", "bridge": n.bridge(), "isGateway": true, "hairpinMode": true,
				"ipam": map[string]any{
					"type": "host-local", "dataDir": filepath.Join(dir, "ipam"),
					"ranges": [][]map[string]string{{{"subnet": fmt.Sprintf("10.89.%d.0/24", n.Number)}}},
					"routes": []map[string]string{{"dst": "0.0.0.0/0"}},
				},
			},
			map[string]any{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}},
		},
	}, "", "  ")
	if err != nil {
		return "", err
	}
	return directory, os.WriteFile(filepath.Join(directory, "10-peer.conflist"), conflist, 0o644)
}

// Remove removes the bridge, which the CNI plugin made with the first pod.
func (n PodNetwork) Remove() error {
	var missing netlink.LinkNotFoundError
	link, err := netlink.LinkByName(n.bridge())
	if errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pod network %s: %w", n.bridge(), err)
	}
	return netlink.LinkDel(link)
}
