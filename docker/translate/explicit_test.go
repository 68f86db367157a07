package translate

import (
	"maps"
	"slices"
	"testing"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

// TestExplicit checks the values that every create must set, because otherwise the image or daemon.json would set them.
func TestExplicit(t *testing.T) {
	sandbox, app := mustSandbox(t, sandboxInput()), mustContainer(t, containerInput())
	kinds := map[string]Kind{"sandbox": KindSandbox, "container": KindContainer}
	for name, spec := range map[string]docker.ContainerSpec{"sandbox": sandbox, "container": app} {
		host := spec.Host
		for what, ok := range map[string]bool{
			"health check none": spec.Config.Healthcheck != nil && len(spec.Config.Healthcheck.Test) == 1 &&
				spec.Config.Healthcheck.Test[0] == "NONE",
			"init off":              host.Init != nil && !*host.Init,
			"IPC mode":              host.IpcMode != "",
			"cgroup namespace":      host.CgroupnsMode != "",
			"runtime":               host.Runtime == "runc",
			"user namespace":        host.UsernsMode == "host",
			"ulimits":               len(host.Ulimits) == len(engineLimits()),
			"size of shared memory": host.ShmSize == 64<<20,
			"restart policy":        host.RestartPolicy.Name == "no",
			"OOM killer on":         host.OomKillDisable != nil && !*host.OomKillDisable,
			"cgroup parent":         host.CgroupParent != "",
			"no new privileges": len(host.SecurityOpt) > 0 &&
				host.SecurityOpt[0] == noNewPrivileges(name == "sandbox"),
			"networks":                spec.Network != nil && len(spec.Network.EndpointsConfig) == 0,
			"options turned off":      !host.AutoRemove && !host.PublishAllPorts && !host.Privileged,
			"log driver":              host.LogConfig.Type != "" && host.LogConfig.Config != nil,
			"labels that identify it": Identify(spec.Name, spec.Config.Labels) == kinds[name],
		} {
			testutil.Assert(t, ok, "%s: %s is not explicit: %+v", name, what, host)
		}
	}
	testutil.Assert(t, sandbox.Config.StopSignal == "SIGKILL", "the sandbox stops on %q", sandbox.Config.StopSignal)
	testutil.Assert(t, sandbox.Host.LogConfig.Type == "none", "the sandbox logs to %s", sandbox.Host.LogConfig.Type)
	want := map[string]string{"max-size": "10m", "max-file": "3", "compress": "false", "mode": "blocking"}
	log := app.Host.LogConfig
	testutil.Assert(t, log.Type == "local" && maps.Equal(log.Config, want), "the container logs to %+v", log)
}

// TestUlimits checks that every limit is set, that files and processes have high limits, and that no limit makes the
// start fail.
func TestUlimits(t *testing.T) {
	const none = docker.Unlimited
	for name, c := range map[string]struct {
		canRaise bool
		files    int64
		engine   []docker.Limit
		want     []docker.Limit
	}{
		"ordinary": {true, 1 << 20, engineLimits(), []docker.Limit{
			{Name: "core", Soft: none, Hard: none}, {Name: "memlock", Soft: 8 << 20, Hard: 8 << 20},
			{Name: "nofile", Soft: 1 << 20, Hard: 1 << 20}, {Name: "nproc", Soft: none, Hard: none},
		}},
		"without CAP_SYS_RESOURCE": {false, 1 << 20, engineLimits(), []docker.Limit{
			{Name: "core", Soft: none, Hard: none}, {Name: "memlock", Soft: 8 << 20, Hard: 8 << 20},
			{Name: "nofile", Soft: 524288, Hard: 524288}, {Name: "nproc", Soft: 96365, Hard: 96365},
		}},
		"no capability, a high limit": {false, 1 << 30, []docker.Limit{{Name: "nofile", Soft: 1024, Hard: 1 << 30}},
			[]docker.Limit{
				{Name: "nofile", Soft: 1 << 20, Hard: 1 << 20},
			}},
		"no capability, no limit": {false, 0, []docker.Limit{{Name: "nofile", Soft: 1024, Hard: none}}, []docker.Limit{
			{Name: "nofile", Soft: 1 << 20, Hard: 1 << 20},
		}},
		"a lower fs.nr_open": {true, 1_000_000, []docker.Limit{{Name: "nofile", Soft: 1024, Hard: 1_000_000}},
			[]docker.Limit{
				{Name: "nofile", Soft: 1_000_000, Hard: 1_000_000},
			}},
		"lowered since the engine's start": {false, 65536, []docker.Limit{{Name: "nofile", Soft: 1024, Hard: 1 << 20}},
			[]docker.Limit{
				{Name: "nofile", Soft: 65536, Hard: 65536},
			}},
		"not known": {false, 0, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			in := containerInput()
			in.Features.NegativeOOMScore, in.Features.Limits, in.Features.MaxOpenFiles = c.canRaise, c.engine, c.files
			var got []docker.Limit
			for _, u := range mustContainer(t, in).Host.Ulimits {
				got = append(got, docker.Limit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
			}
			testutil.Assert(t, slices.Equal(got, c.want), "got  %+v\nwant %+v", got, c.want)
		})
	}
}

// Specs must not share memory with the client's request or with each other.
func TestSpecsAreIndependent(t *testing.T) {
	in := containerInput()
	in.Config.Command = []string{"a"}
	in.Config.Labels = map[string]string{"a": "b"}
	first, second := mustContainer(t, in), mustContainer(t, in)
	*first.Host.Init, first.Config.Entrypoint[0], first.Config.Labels["a"] = true, "changed", "changed"
	first.Host.LogConfig.Config["mode"] = "changed"
	testutil.Assert(t, !*second.Host.Init && second.Config.Entrypoint[0] == "a" && second.Config.Labels["a"] == "b" &&
		second.Host.LogConfig.Config["mode"] != "changed" && in.Config.Command[0] == "a" &&
		in.Config.Labels["a"] == "b", "a change of one spec shows elsewhere")
}
