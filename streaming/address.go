package streaming

import (
	"fmt"
	"net"
	"net/url"

	"github.com/containerd/errdefs"
)

// CheckAddress returns the error that Listen would have about opts.Address. It looks up a host name.
func CheckAddress(opts Options) error {
	_, err := bindAddress(opts)
	return err
}

// bindAddress resolves host:port. Without AllowPlaintext, it refuses plain HTTP on an address that other machines can
// reach.
func bindAddress(opts Options) (*net.TCPAddr, error) {
	address, err := net.ResolveTCPAddr("tcp", opts.Address)
	if err != nil {
		return nil, fmt.Errorf("streaming address %q: %w: %w", opts.Address, errdefs.ErrInvalidArgument, err)
	}
	if !address.IP.IsLoopback() && opts.CertFile == "" && !opts.AllowPlaintext {
		return nil, fmt.Errorf(
			"streaming address %q is not a loopback address: exec sessions would cross the network in the clear; "+
				"give a TLS certificate and key, bind to 127.0.0.1, or allow it explicitly: %w", opts.Address,
			errdefs.ErrFailedPrecondition)
	}
	return address, nil
}

// baseURL is the beginning of the URLs. The kubelet is on this machine, so it reaches a server on all addresses through
// loopback.
func baseURL(bound *net.TCPAddr, encrypted bool) *url.URL {
	reached := *bound
	if bound.IP.IsUnspecified() {
		reached.IP = net.IPv4(127, 0, 0, 1)
	}
	base := &url.URL{Scheme: "http", Host: reached.String()}
	if encrypted {
		base.Scheme = "https"
	}
	return base
}
