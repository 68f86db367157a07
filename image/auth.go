package image

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/distribution/reference"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/image/registry"
)

// credentials converts the credentials of a pull to the engine's form, nil for none. It drops credentials for another
// registry than the image's, so the pull runs without them.
func credentials(ctx context.Context, auth *runtimeapi.AuthConfig, image reference.Named) (*docker.Auth, error) {
	if auth == nil {
		return nil, nil
	}
	if server := auth.GetServerAddress(); server != "" && !parseRegistry(server).serves(image) {
		log.G(ctx).WithFields(log.Fields{"image": image.String(), "registry": parseRegistry(server).host}).
			Warn("credentials are for another registry, pulling without them")
		return nil, nil
	}
	converted := docker.Auth{
		Username:      auth.GetUsername(),
		Password:      auth.GetPassword(),
		IdentityToken: auth.GetIdentityToken(),
		RegistryToken: auth.GetRegistryToken(),
		ServerAddress: engineAddress(image),
	}
	if converted.Username == "" && converted.IdentityToken == "" && auth.GetAuth() != "" {
		user, password, err := decodeAuth(auth.GetAuth())
		if err != nil {
			return nil, fmt.Errorf("auth.auth: %w: %w", err, errdefs.ErrInvalidArgument)
		}
		converted.Username, converted.Password = user, password
	}
	if converted == (docker.Auth{ServerAddress: converted.ServerAddress}) {
		return nil, nil
	}
	return &converted, nil
}

// engineAddress is the address with which an engine finds the credentials of an image's registry. With the containerd
// image store, engines compare it literally with the registry's host. Docker Engine 23 and 24 take an empty address for
// Docker Hub's (moby#46743).
func engineAddress(image reference.Named) string {
	if domain := reference.Domain(image); domain != registry.DockerHub {
		return domain
	}
	return "https://index.docker.io/v1/"
}

// decodeAuth decodes the base64 text "user:password" of a Docker configuration
// file. Such files may pad the password with NUL bytes. The errors do not quote
// the text, which is a secret.
func decodeAuth(auth string) (user, password string, err error) {
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(auth))
	if err != nil {
		return "", "", errors.New("is not base64")
	}
	user, password, found := strings.Cut(string(decoded), ":")
	if !found || user == "" {
		return "", "", errors.New(`is not the base64 form of "user:password"`)
	}
	return user, strings.Trim(password, "\x00"), nil
}
