package adapter

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// Answers fails unless a pod's address works: the pod's network stack must refuse a connection to port 1. No program in
// the pod may listen on that port.
func Answers(ip string) error {
	if _, err := netip.ParseAddr(ip); err != nil { // with an empty address, DialTimeout would reach this machine
		return fmt.Errorf("the pod has no address: %w", err)
	}
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(ip, "1"), 5*time.Second)
	if err == nil {
		return errors.Join(fmt.Errorf("something listens on port 1 of the pod %s", ip), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("the pod's address %q does not answer: %w", ip, err)
	}
	return nil
}
