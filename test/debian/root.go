package debian

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/images"
)

// Suite is the release of Debian that machines run.
const Suite = "bookworm"

// Bootstrap makes a root file system of Debian's packages at root, which it creates. On a Debian host, it installs
// debootstrap if that is missing. The architecture is a value of GOARCH. Another architecture than the host's needs
// Emulate.
func Bootstrap(ctx context.Context, root, architecture string, packages ...string) error {
	if err := images.Packages(ctx, images.Tool{Program: "debootstrap", Package: "debootstrap"}); err != nil {
		return err
	}
	debootstrap, err := images.FindTool("debootstrap")
	if err != nil {
		return err
	}
	_, err = program.Output(ctx, "", nil, debootstrap, "--variant=minbase", "--arch="+architecture,
		"--include="+strings.Join(packages, ","), Suite, root)
	return err
}

// Unpack downloads packages and unpacks their files into dir's subdirectory all. It installs nothing, and deletes the
// downloaded packages.
func Unpack(ctx context.Context, dir string, packages ...string) error {
	download := append([]string{"-q", "download"}, packages...)
	if _, err := program.Output(ctx, dir, nil, "apt-get", download...); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	if len(debs) != len(packages) {
		return fmt.Errorf("apt-get downloaded %q", debs)
	}
	for _, deb := range debs {
		if _, err := program.Output(ctx, dir, nil, "dpkg-deb", "-x", deb, "all"); err != nil {
			return err
		}
		if err := os.Remove(deb); err != nil {
			return err
		}
	}
	return nil
}
