package build

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// moduleLine is where a go.mod names its module.
var moduleLine = regexp.MustCompile(`(?m)^module .*$`)

// writeModule makes a module in dir that requires what the program's vendor.mod does, and the program's own module.
func (p program) writeModule(ctx context.Context, dir string) error {
	answer, err := goCommand(ctx, dir, nil, "mod", "download", "-json", p.vendored+"@"+p.version)
	if err != nil {
		return err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(answer, &downloaded); err != nil {
		return fmt.Errorf("go mod download: %w", err)
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
	_, err = goCommand(ctx, dir, nil, "mod", "edit", "-require="+p.vendored+"@"+p.version)
	return err
}
