package main

import (
	"context"
	"os"
	"strings"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/cmd/criadapter/check"
)

// kernelRelease is the kernel's file with its release.
const kernelRelease = "/proc/sys/kernel/osrelease"

// warnOfKernel logs that the kernel, whose release is in a file, is older than the oldest that is supported. It serves
// nevertheless: pods that run on such a node must not be lost with an upgrade.
func warnOfKernel(ctx context.Context, file string) {
	release, err := os.ReadFile(file)
	if err != nil {
		log.G(ctx).WithError(err).Warn("the kernel's release is unknown")
		return
	}
	if text := strings.TrimSpace(string(release)); !check.SupportedKernel(text) {
		log.G(ctx).WithFields(log.Fields{"kernel": text, "oldest": check.OldestKernel()}).
			Warn("the kernel is older than the oldest that is supported")
	}
}
