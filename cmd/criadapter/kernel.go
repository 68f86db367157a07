package main

import (
	"context"
	"os"
	"strings"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/cmd/criadapter/check"
)

// kernelRelease is the file with the kernel's release.
const kernelRelease = "/proc/sys/kernel/osrelease"

// warnOfKernel logs a warning if the kernel is older than the oldest supported release. file has the kernel's release.
// criadapter serves nevertheless: an upgrade must not lose the pods of such a node.
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
