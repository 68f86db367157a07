package debian

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"

	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// FillEngine puts a node's engine into a directory of the share: its daemon.json with the settings of more, and its
// programs unless the engine of this name (see engine.Named) is Debian's. With RUNTIME_MODE=oci, daemon.json names
// criadapter's OCI runtime, so that pods have no sandbox container. The architecture is a value of GOARCH.
func FillEngine(ctx context.Context, name, architecture string, more map[string]any, dir string) error {
	variant, err := engine.Named(name)
	if err != nil {
		return err
	}
	config := map[string]any{}
	maps.Copy(config, variant.Config())
	maps.Copy(config, more)
	if os.Getenv("RUNTIME_MODE") == rigenv.ModeOCI {
		config["runtimes"] = map[string]any{"criadapter": map[string]any{"path": "/usr/bin/criadapter-oci"}}
	}
	if err := program.WriteJSON(filepath.Join(dir, "daemon.json"), config); err != nil {
		return err
	}
	if variant.Name == engine.Installed {
		return nil
	}
	if architecture != runtime.GOARCH {
		return fmt.Errorf("the engine %s is built for this host's architecture alone: take Debian's on a machine of %s",
			variant.Name, architecture)
	}
	dockerd, err := variant.Program(ctx, os.Stdout)
	if err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(dir, "engine"), os.DirFS(filepath.Dir(dockerd)))
}

// ConfigureEngine returns shell commands that install what FillEngine has put into dir, a directory of the machine: the
// engine's settings and, if there are any, its programs.
func ConfigureEngine(dir string) string {
	return `
		mkdir -p /etc/docker
		cp ` + dir + `/daemon.json /etc/docker
		if [ -d ` + dir + `/engine ]; then
			systemctl stop docker.socket docker containerd
			for program in $(ls ` + dir + `/engine); do
				cp ` + dir + `/engine/$program $(command -v $program)
			done
			rm -rf /var/lib/docker/* /var/lib/containerd/*
			systemctl start containerd docker.socket docker
		else
			systemctl restart docker
		fi
`
}

// UseOCIRuntime has shell commands that make criadapter-oci a runtime of the machine's engine. They follow
// docs/oci-runtime.md: one line in daemon.json and a reload. An engine that has the runtime keeps it.
const UseOCIRuntime = `
		grep criadapter-oci /etc/docker/daemon.json ||
			sed --in-place 's,^{,{"runtimes": {"criadapter": {"path": "/usr/bin/criadapter-oci"}}\, ,' \
				/etc/docker/daemon.json
		systemctl reload docker`

// UsesOCIRuntime returns shell commands that fail until criadapter uses the runtime of UseOCIRuntime. crictl is the
// command that calls crictl on the machine.
func UsesOCIRuntime(crictl string) string {
	return crictl + ` info | tr --delete ' \n' |
			grep --fixed-strings '"OCIRuntime":{"Fault":"","Name":"criadapter"'`
}

// RuntimeWrapper builds the stand-in for runc (command test/rig/ociwrap) as runc in a directory. Machines in namespaces
// have no more capabilities than their host, and plain runc may need more.
func RuntimeWrapper(ctx context.Context, dir string) error {
	return program.BuildStatic(ctx, filepath.Join(dir, "runc"), "./test/rig/ociwrap")
}
