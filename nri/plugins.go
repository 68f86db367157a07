package nri

import (
	"errors"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/api"
)

// Plugins returns the programs in a directory of plugins. A missing directory has none. A program without an index in
// its name is an error: NRI cannot start with it.
func Plugins(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || entry.IsDir() || info.Mode()&0o111 == 0 {
			continue
		}
		if _, _, err := api.ParsePluginName(entry.Name()); err != nil {
			return nil, fmt.Errorf("%s/%s: %w", dir, entry.Name(), err)
		}
		names = append(names, entry.Name())
	}
	return names, nil
}
