// Package registry serves images for tests: without an account, with an account, and like a registry in trouble. See
// package rigenv for the addresses that tests use.
package registry

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// Registry is a running registry with two listeners over one store.
type Registry struct {
	// Addr is the host:port without an account; AuthAddr demands rigenv.RegistryUser.
	Addr, AuthAddr string

	servers []*http.Server
	done    []chan error
}

// anyPort is a free port of 127.0.0.1.
const anyPort = "127.0.0.1:0"

// Start listens on two free ports of 127.0.0.1 and stores the images there, keyed "repository:tag".
func Start(ctx context.Context, images map[string]v1.Image) (*Registry, error) {
	return newRegistry(ctx, images, func(r *Registry, store http.Handler) (err error) {
		if r.Addr, err = r.serve(anyPort, withTrouble(store)); err == nil {
			r.AuthAddr, err = r.serve(anyPort, withAccount(store))
		}
		return err
	})
}

// Open listens at an address, host:port, and stores the images there. It serves all of them without an account, and has
// no AuthAddr.
func Open(ctx context.Context, addr string, images map[string]v1.Image) (*Registry, error) {
	return newRegistry(ctx, images, func(r *Registry, store http.Handler) (err error) {
		r.Addr, err = r.serve(addr, store)
		return err
	})
}

// newRegistry makes a registry. listen opens its listeners.
func newRegistry(
	ctx context.Context, images map[string]v1.Image, listen func(*Registry, http.Handler) error,
) (*Registry, error) {
	store := withRanges(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))))
	r := &Registry{}
	err := listen(r, store)
	if err == nil {
		err = fill(ctx, store, images)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("registry: %w", err), r.Close())
	}
	return r, nil
}

func (r *Registry) serve(at string, handler http.Handler) (addr string, err error) {
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: handler}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	r.servers, r.done = append(r.servers, server), append(r.done, done)
	return listener.Addr().String(), nil
}

// Close ends all connections and waits for the listeners to end.
func (r *Registry) Close() error {
	var errs []error
	for i, server := range r.servers {
		errs = append(errs, server.Close())
		if err := <-r.done[i]; !errors.Is(err, http.ErrServerClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// withAccount demands basic authentication, also for the version check at /v2/. From that answer, clients learn that
// they must send credentials.
func withAccount(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		user, password, _ := req.BasicAuth()
		if equal(user, rigenv.RegistryUser) && equal(password, rigenv.RegistryPassword) {
			next.ServeHTTP(w, req)
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="rig"`)
		reply(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
	})
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// reply writes an error in the form of the OCI distribution specification.
func reply(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, code, message)
}
