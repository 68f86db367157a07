package main

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
)

// packages runs nfpm for all packages in every format, with the files in stage.
func (r release) packages(ctx context.Context, architecture, stage string) error {
	environ := []string{
		"ARCH=" + architecture,
		"STAGE=" + stage,
		"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.time.Unix(), 10),
	}
	for _, name := range []string{"criadapter", "cri-docker", "kubelet-core"} {
		for _, format := range []string{"deb", "rpm", "apk"} {
			config := filepath.Join("packaging", name, "nfpm.yaml")
			_, err := output(ctx, r.source, append(environ, "VERSION="+versionFor(format, r.version)), "go", "tool",
				"-modfile=packaging/tools/go.mod", "nfpm",
				"package", "--config", config, "--packager", format, "--target", r.out)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// versionFor is a version for a format. Alpine's versions have no build metadata.
func versionFor(format, version string) string {
	if format == "apk" {
		version, _, _ = strings.Cut(version, "+")
	}
	return version
}
