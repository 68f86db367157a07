package node

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/test/critest/report"
	"github.com/criadapter/criadapter/test/rig/rigenv"
	"github.com/criadapter/criadapter/test/vm/machine"
)

// infoFormat has docker info print what Features reads.
const infoFormat = `{"ServerVersion": {{json .ServerVersion}}, "CgroupVersion": {{json .CgroupVersion}},
	"CgroupDriver": {{json .CgroupDriver}}, "Driver": {{json .Driver}}}`

// Features returns the abilities of the machine's engine and kernel that groups of expected specs depend on.
func Features(ctx context.Context, node *machine.Machine) (docker.Features, report.Machine, error) {
	var info struct{ ServerVersion, CgroupVersion, CgroupDriver, Driver string }
	f, m := docker.Features{}, report.Machine{}
	text, err := node.Run(ctx, "docker", "info", "--format", infoFormat)
	if err != nil {
		return f, m, err
	}
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return f, m, err
	}
	if f.CgroupVersion, err = strconv.Atoi(info.CgroupVersion); err != nil {
		return f, m, err
	}
	f.ServerVersion, f.CgroupDriver, f.StorageDriver = info.ServerVersion, info.CgroupDriver, info.Driver
	show := func(args ...string) string {
		var out string
		if err == nil {
			out, err = node.Run(ctx, args...)
		}
		return out
	}
	f.APIVersion = show("docker", "version", "--format", "{{.Server.APIVersion}}")
	f.AppArmor = show("cat", "/sys/module/apparmor/parameters/enabled") == "Y"
	f.SELinux = show("sh", "-c", "cat /sys/fs/selinux/enforce 2>/dev/null || true") == "1"
	m.Controllers = strings.Fields(show("cat", "/sys/fs/cgroup/cgroup.controllers"))
	m.Capabilities = rigenv.CapabilitiesOf(show("cat", "/proc/1/status"))
	const tryDummy = "ip link add expected-dummy type dummy && ip link del expected-dummy && echo Y || echo N"
	m.Dummy = show("sh", "-c", tryDummy) == "Y"
	// criadapter check also fails for findings that do not matter here. The pipe hides its exit code.
	m.OCIRuntime = strings.Contains(show("sh", "-c", "criadapter check | grep 'OCI runtime'"), "criadapter-oci as ")
	return f, m, err
}
