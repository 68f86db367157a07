package build

import (
	"context"
	"os"
	"path/filepath"
	"regexp"

	"github.com/criadapter/criadapter/test/gomod"
)

// moduleLine is where a go.mod names its module.
var moduleLine = regexp.MustCompile(`(?m)^module .*$`)

// writeModule makes a module in dir that requires what the program's vendor.mod does, and the program's own module.
func (p program) writeModule(ctx context.Context, dir string) error {
	downloaded, err := gomod.Download(ctx, dir, p.vendored+"@"+p.version)
	if err != nil {
		return err
	}
	for from, to := range map[string]string{"vendor.mod": "go.mod", "vendor.sum": "go.sum"} {
		content, err := os.ReadFile(filepath.Join(downloaded.Dir, from))
		if err != nil {
			return err
		}
		content = moduleLine.ReplaceAll(content, []byte("module engine"))
		if err := os.WriteFile(filepath.Join(dir, to), content, 0o644); err != nil {
			return err
		}
	}
	_, err = gomod.Command(ctx, dir, nil, "mod", "edit", "-require="+p.vendored+"@"+p.version)
	return err
}
