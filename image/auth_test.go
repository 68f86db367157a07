package image

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestCredentials(t *testing.T) {
	const hub = "https://index.docker.io/v1/"
	for _, test := range []struct {
		name  string
		image string
		auth  *runtimeapi.AuthConfig
		want  *docker.Auth
	}{
		{name: "none", auth: nil, want: nil},
		{name: "empty", auth: &runtimeapi.AuthConfig{}, want: nil},
		{name: "only an address", image: "r.example/a", auth: &runtimeapi.AuthConfig{ServerAddress: "r.example"},
			want: nil},
		{
			name: "user and password",
			auth: &runtimeapi.AuthConfig{Username: "u", Password: "p"},
			want: &docker.Auth{Username: "u", Password: "p", ServerAddress: hub},
		},
		{
			name: "auth string",
			auth: &runtimeapi.AuthConfig{Auth: encoded("u:p:with:colons")},
			want: &docker.Auth{Username: "u", Password: "p:with:colons", ServerAddress: hub},
		},
		{
			name: "auth string padded with NUL bytes",
			auth: &runtimeapi.AuthConfig{Auth: encoded("u:p\x00\x00")},
			want: &docker.Auth{Username: "u", Password: "p", ServerAddress: hub},
		},
		{
			name: "user and password before the auth string",
			auth: &runtimeapi.AuthConfig{Username: "u", Password: "p", Auth: encoded("other:secret")},
			want: &docker.Auth{Username: "u", Password: "p", ServerAddress: hub},
		},
		{
			name: "identity token",
			auth: &runtimeapi.AuthConfig{IdentityToken: "t"},
			want: &docker.Auth{IdentityToken: "t", ServerAddress: hub},
		},
		{
			name: "registry token",
			auth: &runtimeapi.AuthConfig{RegistryToken: "t"},
			want: &docker.Auth{RegistryToken: "t", ServerAddress: hub},
		},
		{
			name:  "for this registry",
			image: "127.0.0.1:5000/a",
			auth:  &runtimeapi.AuthConfig{Username: "u", ServerAddress: "http://127.0.0.1:5000/v2/"},
			want:  &docker.Auth{Username: "u", ServerAddress: "127.0.0.1:5000"},
		},
		{
			name:  "for Docker's registry under its historical name",
			image: "busybox",
			auth:  &runtimeapi.AuthConfig{Username: "u", ServerAddress: "https://index.docker.io/v1/"},
			want:  &docker.Auth{Username: "u", ServerAddress: hub},
		},
		{
			name:  "for this registry with its usual port",
			image: "r.example/a",
			auth:  &runtimeapi.AuthConfig{Username: "u", ServerAddress: "https://R.example:443/v1/"},
			want:  &docker.Auth{Username: "u", ServerAddress: "r.example"},
		},
		{
			name:  "for another registry",
			image: "127.0.0.1:5000/a",
			auth:  &runtimeapi.AuthConfig{Username: "u", Password: "p", ServerAddress: "127.0.0.1:5001"},
			want:  nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			image := test.image
			if image == "" {
				image = "busybox"
			}
			named, err := reference.ParseDockerRef(image)
			testutil.Must(t, err)
			got, err := credentials(t.Context(), test.auth, named)
			testutil.Must(t, err)
			switch {
			case (got == nil) != (test.want == nil):
				t.Fatalf("got credentials: %t, want %t", got != nil, test.want != nil)
			case got != nil && *got != *test.want:
				t.Errorf("got %+v, want %+v", *got, *test.want)
			}
		})
	}
}

func TestCredentialsRefusesNonsenseWithoutQuotingIt(t *testing.T) {
	named, err := reference.ParseDockerRef("busybox")
	testutil.Must(t, err)
	for _, auth := range []string{"$ecret!", encoded("$ecret"), encoded(":$ecret")} {
		_, err := credentials(t.Context(), &runtimeapi.AuthConfig{Auth: auth}, named)
		testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "auth.auth"),
			"%q: %v, want ErrInvalidArgument naming auth.auth", auth, err)
		if err != nil && (strings.Contains(err.Error(), auth) || strings.Contains(err.Error(), "ecret")) {
			t.Errorf("the error quotes the secret: %v", err)
		}
	}
}

func FuzzDecodeAuth(f *testing.F) {
	for _, seed := range []string{"", "dTpw", encoded("u:p\x00"), encoded("u"), "dTpw\n", "====", "%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, auth string) {
		user, password, err := decodeAuth(auth)
		if err != nil {
			testutil.Assert(t, user == "" && password == "", "credentials beside an error")
			return
		}
		testutil.Assert(t, user != "" && !strings.HasSuffix(password, "\x00"),
			"decoded %q into user %q and password %q", auth, user, password)
		again, pass, err := decodeAuth(encoded(user + ":" + password))
		testutil.Assert(t, err == nil && again == user && pass == password,
			"%q does not survive a round trip: %q, %q, %v", auth, again, pass, err)
	})
}
