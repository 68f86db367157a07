package registry

import (
	"context"
	"path/filepath"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/criadapter/criadapter/docker"
)

// Options are the options of Open. The zero value is ready to use.
type Options struct {
	// Auth are the credentials.
	Auth authn.AuthConfig
	// Certs has a directory with certificates for each registry, as /etc/docker/certs.d. It need not exist.
	Certs string
	// MaxAnswer bounds the size of each answer, in bytes. 0 is no bound.
	MaxAnswer int64
}

// Credentials converts the credentials of a pull for Options. nil means none.
func Credentials(auth *docker.Auth) authn.AuthConfig {
	if auth == nil {
		return authn.AuthConfig{}
	}
	return authn.AuthConfig{
		Username:      auth.Username,
		Password:      auth.Password,
		IdentityToken: auth.IdentityToken,
		RegistryToken: auth.RegistryToken,
	}
}

// Repository is a repository of a registry, for one caller.
type Repository struct {
	Name name.Repository
	// Remote are the options for the functions of package remote. Requests with them share one authentication.
	Remote []remote.Option
}

// Open returns the repository of an image or an artifact. It sends nothing. The requests end with ctx.
func Open(ctx context.Context, ref reference.Named, opts Options) (Repository, error) {
	repository, err := name.NewRepository(ref.Name(), name.StrictValidation)
	if err != nil {
		return Repository{}, err
	}
	transport, err := newTransport(filepath.Join(opts.Certs, reference.Domain(ref)), opts.MaxAnswer)
	if err != nil {
		return Repository{}, err
	}
	puller, err := remote.NewPuller(remote.WithAuth(authn.FromConfig(opts.Auth)), remote.WithTransport(transport))
	if err != nil {
		return Repository{}, err
	}
	return Repository{
		Name: repository, Remote: []remote.Option{remote.WithContext(ctx), remote.Reuse(puller)},
	}, nil
}
