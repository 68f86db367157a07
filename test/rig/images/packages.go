package images

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Tool is a program of the host and the Debian package that brings it.
type Tool struct {
	Program, Package string
	// File is the path of a needed file, if the tool is not a program.
	File string
}

// missing says whether the host lacks the tool.
func (t Tool) missing() bool {
	var err error
	if t.File != "" {
		_, err = os.Stat(t.File)
	} else {
		_, err = FindTool(t.Program)
	}
	return err != nil
}

// Packages makes sure that the host has every tool: on a Debian system (or a derivative) it installs missing packages
// if it runs as root. Elsewhere it returns an error with the packages to install.
func Packages(ctx context.Context, tools ...Tool) error {
	missing := missingTools(tools)
	if len(missing) == 0 {
		return nil
	}
	var names []string
	for _, tool := range missing {
		names = append(names, tool.Package)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if !isDebian() {
		return fmt.Errorf("programs missing: %s; install your distribution's equivalent of the Debian packages: %s",
			programs(missing), strings.Join(names, " "))
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("programs missing: %s; run as root: apt-get install --no-install-recommends %s",
			programs(missing), strings.Join(names, " "))
	}
	if err := install(ctx, names); err != nil {
		return err
	}
	if still := missingTools(missing); len(still) > 0 {
		return fmt.Errorf("programs still missing after installing %s: %s", strings.Join(names, " "), programs(still))
	}
	return nil
}

// FindTool returns the path of a host program, found on PATH or where Debian keeps programs for root.
func FindTool(program string) (string, error) {
	if found, err := exec.LookPath(program); err == nil {
		return filepath.Abs(found)
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin"} {
		if found, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("program %s: %w", program, exec.ErrNotFound)
}

func missingTools(tools []Tool) []Tool {
	var missing []Tool
	for _, tool := range tools {
		if tool.missing() {
			missing = append(missing, tool)
		}
	}
	return missing
}

func programs(tools []Tool) string {
	var names []string
	for _, tool := range tools {
		names = append(names, cmp.Or(tool.File, tool.Program))
	}
	return strings.Join(names, ", ")
}

func isDebian() bool {
	_, err := exec.LookPath("apt-get")
	return err == nil
}

// install runs apt-get, which waits for another apt-get's lock.
func install(ctx context.Context, names []string) error {
	return fetch(ctx, "", append([]string{"-q", "-y", "-o", "DPkg::Lock::Timeout=120", "install",
		"--no-install-recommends"}, names...)...)
}

// fetch is aptGet with a second attempt, for a machine that never fetched the package lists.
func fetch(ctx context.Context, dir string, args ...string) error {
	if aptGet(ctx, dir, args...) == nil {
		return nil
	}
	if err := aptGet(ctx, "", "-q", "update"); err != nil {
		return err
	}
	return aptGet(ctx, dir, args...)
}

// aptGet runs apt-get in dir, in the current directory if that is empty.
func aptGet(ctx context.Context, dir string, args ...string) error {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, output.String())
	}
	return nil
}
