package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// nodeCredentials returns the credentials for an image's registry under auths of a Docker configuration file
// (config.json). It returns nil if there are none or the file does not exist. It does not run credential helpers.
func nodeCredentials(path string, image reference.Named) (*runtimeapi.AuthConfig, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the node's registry credentials: %w", err)
	}
	var file struct {
		Auths map[string]struct {
			Username, Password, Auth, IdentityToken, RegistryToken string
		} `json:"auths"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("the node's registry credentials in %s are not the JSON of a Docker configuration: %w",
			path, errdefs.ErrInvalidArgument)
	}
	for _, server := range slices.Sorted(maps.Keys(file.Auths)) {
		if !parseRegistry(server).serves(image) {
			continue
		}
		entry := file.Auths[server]
		return &runtimeapi.AuthConfig{
			Username: entry.Username, Password: entry.Password, Auth: entry.Auth,
			IdentityToken: entry.IdentityToken, RegistryToken: entry.RegistryToken, ServerAddress: server,
		}, nil
	}
	return nil, nil
}
