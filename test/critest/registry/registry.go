// Package registry is the registry that is compiled into critest on this machine. It is the rig's registry on a fixed
// port.
package registry

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strconv"

	"github.com/criadapter/criadapter/test/critest/build"
	"github.com/criadapter/criadapter/test/rig/cache"
	"github.com/criadapter/criadapter/test/rig/images"
)

// port is compiled into the suite. Nothing else in the rig's network namespace listens on it.
const port = 5000

// Critest returns critest for this registry and this machine. It is built if the cache does not have it.
func Critest(ctx context.Context) (build.Critest, error) {
	registry, err := compiledIn(ctx)
	if err != nil {
		return build.Critest{}, err
	}
	return build.NewCritest(ctx, registry, runtime.GOARCH)
}

// CritestCached says whether Critest has nothing to build.
func CritestCached(ctx context.Context) (bool, error) {
	registry, err := compiledIn(ctx)
	if err != nil {
		return false, err
	}
	return build.CritestCached(ctx, registry)
}

func compiledIn(ctx context.Context) (build.Registry, error) {
	cacheDir, err := cache.Dir()
	if err != nil {
		return build.Registry{}, err
	}
	catalog, err := images.Catalog(ctx, cacheDir)
	if err != nil {
		return build.Registry{}, err
	}
	digest, err := catalog[images.CritestDigestImage].Digest()
	return build.Registry{Port: port, Digest: digest.String()}, err
}

// Serve makes the registry at addr also answer on the port that is compiled into the suite.
func Serve(addr string) (stop func(), err error) {
	fixed := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if addr == fixed {
		return func() {}, nil
	}
	socket, err := net.Listen("tcp", fixed)
	if err != nil {
		return nil, fmt.Errorf("the port that is compiled into critest: %w", err)
	}
	server := &http.Server{Handler: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(socket) // ErrServerClosed after Close; after another error pulls fail, and the specs report it
	}()
	return func() {
		server.Close()
		<-done
	}, nil
}
