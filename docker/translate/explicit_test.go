package translate

import (
	"maps"
	"testing"

	"github.com/criadapter/criadapter/docker"
)

// TestExplicit checks what every create must say, because otherwise the image
// or daemon.json says it.
func TestExplicit(t *testing.T) {
	sandbox, app := mustSandbox(t, sandboxInput()), mustContainer(t, containerInput())
	for name, spec := range map[string]docker.ContainerSpec{"sandbox": sandbox, "container": app} {
		host := spec.Host
		for what, ok := range map[string]bool{
			"health check none":       spec.Config.Healthcheck != nil && len(spec.Config.Healthcheck.Test) == 1 && spec.Config.Healthcheck.Test[0] == "NONE",
			"init off":                host.Init != nil && !*host.Init,
			"IPC mode":                host.IpcMode != "",
			"cgroup namespace":        host.CgroupnsMode != "",
			"runtime":                 host.Runtime == "runc",
			"user namespace":          host.UsernsMode == "host",
			"ulimits":                 len(host.Ulimits) == 3,
			"size of shared memory":   host.ShmSize == 64<<20,
			"restart policy":          host.RestartPolicy.Name == "no",
			"OOM killer on":           host.OomKillDisable != nil && !*host.OomKillDisable,
			"cgroup parent":           host.CgroupParent != "",
			"no new privileges":       len(host.SecurityOpt) > 0 && host.SecurityOpt[0] == noNewPrivileges(name == "sandbox"),
			"networks":                spec.Network != nil && len(spec.Network.EndpointsConfig) == 0,
			"nothing by itself":       !host.AutoRemove && !host.PublishAllPorts && !host.Privileged,
			"log driver":              host.LogConfig.Type != "" && host.LogConfig.Config != nil,
			"labels that identify it": Identify(spec.Name, spec.Config.Labels).String() == name,
		} {
			if !ok {
				t.Errorf("%s: %s is not explicit: %+v", name, what, host)
			}
		}
	}
	if sandbox.Config.StopSignal != "SIGTERM" {
		t.Errorf("the sandbox stops on %q", sandbox.Config.StopSignal)
	}
	if sandbox.Host.LogConfig.Type != "none" {
		t.Errorf("the sandbox logs to %s", sandbox.Host.LogConfig.Type)
	}
	want := map[string]string{"max-size": "10m", "max-file": "3", "compress": "false", "mode": "blocking"}
	if log := app.Host.LogConfig; log.Type != "local" || !maps.Equal(log.Config, want) {
		t.Errorf("the container logs to %+v", log)
	}
}

func TestUlimitsOfAnEngineWithoutTheCapability(t *testing.T) {
	in := containerInput()
	in.Features.NegativeOOMScore = false
	if got := mustContainer(t, in).Host.Ulimits; got == nil || len(got) > 0 {
		t.Errorf("got %v, want none, because raising one would fail the start", got)
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
	if *second.Host.Init || second.Config.Entrypoint[0] != "a" || second.Config.Labels["a"] != "b" ||
		second.Host.LogConfig.Config["mode"] == "changed" || in.Config.Command[0] != "a" || in.Config.Labels["a"] != "b" {
		t.Error("a change of one spec shows elsewhere")
	}
}
