package docker_test

import (
	"net/http"
	"net/http/httputil"
	"testing"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// apiVersions returns the API versions of Docker 20.10, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0 and 28.3.
func apiVersions() []string {
	return []string{"1.41", "1.42", "1.43", "1.44", "1.45", "1.46", "1.48", "1.51"}
}

// TestConformanceOfAPIVersions runs the conformance scenarios in each of apiVersions that the engine supports. A proxy
// makes the client believe that the engine has no newer version.
func TestConformanceOfAPIVersions(t *testing.T) {
	env := rigenv.Require(t)
	features, err := dialRig(t, env).Features(rigContext(t))
	testutil.Must(t, err)
	for _, version := range apiVersions() {
		if !features.Supports(version) {
			continue
		}
		t.Run(version, func(t *testing.T) {
			env := env
			env.DockerHost = proxyAPI(t, env, version)
			client := dialRig(t, env)
			got, err := client.Features(rigContext(t))
			testutil.Require(t, err == nil && got.APIVersion == version,
				"the client speaks %s, %v", got.APIVersion, err)
			dockertest.Conformance(t, dockertest.Subject{
				Engine: client, Image: env.Image(rigImage), Pullable: env.Image("test/multi:a"),
				Absent: env.Image("test/multi:absent"), Prefix: uniquePrefix("api-" + version),
				Needs: rigenv.RequireControllers,
			})
		})
	}
}

// proxyAPI serves the rig's engine on another socket, as an engine whose newest API version is version.
func proxyAPI(t *testing.T, env rigenv.Env, version string) (host string) {
	t.Helper()
	return engine.Proxy(t, env, func(proxy *httputil.ReverseProxy) http.Handler {
		proxy.ModifyResponse = func(response *http.Response) error {
			response.Header.Set("Api-Version", version)
			return nil
		}
		return proxy
	})
}
