package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/gomod"
	"github.com/criadapter/criadapter/test/rig/cache"
	"github.com/criadapter/criadapter/test/rig/images"
)

const (
	runcModule = "github.com/opencontainers/runc"
	// runcVersion is the version of the suite and of the runc that it tests.
	runcVersion = "v1.3.0"
	// batsTimeout bounds one run of runc's suite.
	batsTimeout = 20 * time.Minute
)

// batsFiles are the files of runc's suite that run.
var batsFiles = []string{"run", "exec", "update", "events", "mounts", "userns"}

// Directories of runc's suite below the cache entry.
const (
	batsDir      = "tests/integration"
	batsPrograms = "tests/cmd/_bin"
)

// installTools installs what runc's suite needs, and ping for the engine's tests. It runs before the rig, whose
// namespaces have no network.
func installTools(ctx context.Context) error {
	return images.Packages(ctx,
		images.Tool{Program: "bats", Package: "bats"}, images.Tool{Program: "jq", Package: "jq"},
		images.Tool{Program: "busybox", Package: "busybox-static"}, images.Tool{Program: "gawk", Package: "gawk"},
		images.Tool{Program: "script", Package: "bsdutils"}, images.Tool{Program: "ping", Package: "iputils-ping"},
		images.Tool{File: "/usr/include/seccomp.h", Package: "libseccomp-dev"},
		images.Tool{Program: "pkg-config", Package: "pkg-config"})
}

// buildBats returns the directory of runc's suite, with runc. It is kept in the cache.
func buildBats(ctx context.Context) (string, error) {
	key := cache.Key("runc-bats", runcVersion, runtime.GOARCH, runtime.Version())
	return cache.Fill(ctx, key, func(ctx context.Context, dir string) error {
		module, err := gomod.Download(ctx, dir, runcModule+"@"+runcVersion)
		if err != nil {
			return err
		}
		if err := os.CopyFS(filepath.Join(dir, batsDir), os.DirFS(filepath.Join(module.Dir, batsDir))); err != nil {
			return err
		}
		install := func(to string, args ...string) error {
			environ := append(gomod.Native(), "CGO_ENABLED=1", "GOBIN="+filepath.Join(dir, to))
			_, err := gomod.Command(ctx, dir, environ, append([]string{"install", "-trimpath"}, args...)...)
			return err
		}
		if err := install("", "-tags", "seccomp", runcModule+"@"+runcVersion); err != nil {
			return err
		}
		helpers := []string{"-tags", "seccomp"}
		for _, helper := range []string{
			"recvtty", "sd-helper", "fs-idmap", "pidfd-kill", "remap-rootfs", "seccompagent",
		} {
			helpers = append(helpers, runcModule+"/tests/cmd/"+helper+"@"+runcVersion)
		}
		if err := install(batsPrograms, helpers...); err != nil {
			return err
		}
		return makeBusybox(ctx, dir)
	})
}

// makeBusybox makes the suite's root file system, and the script by which the suite finds it.
func makeBusybox(ctx context.Context, dir string) error {
	const script = `set -e
mkdir -p "$1/busybox/bin" "$1/busybox/etc" "$1/busybox/tmp" "$1/busybox/root" "$1/busybox/home"
cp "$(command -v busybox)" "$1/busybox/bin"
for name in $(busybox --list); do [ "$name" = busybox ] || ln -s busybox "$1/busybox/bin/$name"; done
echo root:x:0:0:root:/root:/bin/sh > "$1/busybox/etc/passwd"
echo root:x:0: > "$1/busybox/etc/group"
tar -C "$1/busybox" -cf "$1/busybox.tar" .
rm -r "$1/busybox"
cat > "$1/tests/integration/get-images.sh" <<'END'
#!/bin/sh
here=$(readlink -f "$(dirname "$0")/../..")
echo "BUSYBOX_IMAGE=$here/busybox.tar HELLO_IMAGE=$here/none DEBIAN_IMAGE=$here/none"
END
chmod 755 "$1/tests/integration/get-images.sh"
`
	if out, err := exec.CommandContext(ctx, "sh", "-c", script, "sh", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("make the root file system: %w\n%s", err, out)
	}
	return nil
}

// batsLine is a result of the Test Anything Protocol: "ok 7 name" or "not ok 7 name", with "# skip" for a skipped test.
var batsLine = regexp.MustCompile(`^(ok|not ok) \d+ (.*)$`)

// runBats runs runc's suite with a runtime. The returned map has true for tests that passed, and false for tests that
// failed. It leaves out skipped tests.
func runBats(ctx context.Context, suite string, environ []string, report string) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, batsTimeout)
	defer cancel()
	command := "bats --tap"
	for _, name := range batsFiles {
		command += " " + name + ".bats"
	}
	// The tests need a terminal.
	cmd := exec.CommandContext(ctx, "script", "--quiet", "--return", "--command", command, os.DevNull)
	cmd.Dir, cmd.Env, cmd.WaitDelay = filepath.Join(suite, batsDir), environ, time.Second
	output, _ := cmd.CombinedOutput() // it fails if a test fails
	if err := os.WriteFile(report, output, 0o644); err != nil {
		return nil, err
	}
	results := map[string]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		found := batsLine.FindStringSubmatch(strings.TrimSuffix(lines.Text(), "\r"))
		if found != nil && !strings.Contains(found[2], "# skip") {
			results[found[2]] = found[1] == "ok"
		}
	}
	return results, ctx.Err()
}
