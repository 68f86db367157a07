package adapter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/criadapter/criadapter/test/netdevice"
)

// network is the pod network of one server: 1024 addresses of 10.88.0.0/16 behind the bridge criadapterNUMBER. All
// servers of a rig share its network namespace, so each server claims a number: it makes a directory with that name,
// which only one server can do.
type network struct {
	number int
	// claim is the path of that directory, or empty if this network has claimed no number.
	claim string
}

// maxNetworks is how many servers of one rig can run at once.
const maxNetworks = 64

func takeNetwork(workDir string) (network, error) {
	claims := filepath.Join(workDir, "pod-networks")
	if err := os.MkdirAll(claims, 0o755); err != nil {
		return network{}, err
	}
	for number := range maxNetworks {
		claim := filepath.Join(claims, strconv.Itoa(number))
		err := os.Mkdir(claim, 0o755)
		if err == nil {
			return network{number: number, claim: claim}, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return network{}, err
		}
	}
	return network{}, fmt.Errorf("all %d pod networks in %s are taken", maxNetworks, claims)
}

func (n network) bridge() string { return fmt.Sprintf("criadapter%d", n.number) }

func (n network) subnet() string { return fmt.Sprintf("10.88.%d.0/22", 4*n.number) }

// conflist is the CNI configuration: pods reach each other and the rig's network namespace, which has their host ports.
func (n network) conflist(ipamDir string) ([]byte, error) {
	network := netdevice.Network{Name: "test" + strconv.Itoa(n.number), Bridge: n.bridge(), Subnet: n.subnet()}
	return network.Conflist(ipamDir)
}

// release removes the bridge, which the CNI plugin made with the first pod, and gives the number back.
func (n network) release() error {
	if n.claim == "" {
		return nil
	}
	if err := netdevice.RemoveBridge(n.bridge()); err != nil {
		return fmt.Errorf("pod network: %w", err)
	}
	return os.Remove(n.claim)
}
