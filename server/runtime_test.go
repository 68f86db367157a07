package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/server/fields"
	"github.com/criadapter/criadapter/state"
)

func TestVersion(t *testing.T) {
	n := newNode()
	got, err := n.Version(t.Context(), &runtimeapi.VersionRequest{})
	testutil.Must(t, err)
	testutil.Assert(t, got.GetVersion() == "0.1.0" && got.GetRuntimeName() == "docker" &&
		got.GetRuntimeVersion() == "20.10.24" && got.GetRuntimeApiVersion() == "1.41.0", "got %v", got)
	n.engine.err = errAway
	again, err := n.Version(t.Context(), &runtimeapi.VersionRequest{})
	testutil.Assert(t, err == nil && again.GetRuntimeVersion() == "20.10.24",
		"while the engine is away: %v, %v", again, err)
	// Clients ask for the version when they connect, even before the engine is up for the first time.
	never := newNode()
	never.engine.err = errAway
	got, err = never.Version(t.Context(), &runtimeapi.VersionRequest{})
	testutil.Assert(t, err == nil && got.GetRuntimeVersion() != "", "before the engine was up: %v, %v", got, err)
}

func TestRuntimeConfig(t *testing.T) {
	for driver, want := range map[string]runtimeapi.CgroupDriver{
		"systemd":  runtimeapi.CgroupDriver_SYSTEMD,
		"cgroupfs": runtimeapi.CgroupDriver_CGROUPFS,
	} {
		n := newNode()
		n.engine.features.CgroupDriver = driver
		got, err := n.RuntimeConfig(t.Context(), &runtimeapi.RuntimeConfigRequest{})
		testutil.Assert(t, err == nil && got.GetLinux() != nil && got.GetLinux().GetCgroupDriver() == want,
			"%s: %v, %v", driver, got, err)
	}
	n := newNode()
	n.engine.features.CgroupDriver = "none"
	_, err := n.RuntimeConfig(t.Context(), &runtimeapi.RuntimeConfigRequest{})
	testutil.Assert(t, status.Code(toStatus(err)) == codes.FailedPrecondition,
		"without cgroups: %v, want FailedPrecondition", err)
	n.engine.err = errAway
	_, err = n.RuntimeConfig(t.Context(), &runtimeapi.RuntimeConfigRequest{})
	testutil.Assert(t, status.Code(toStatus(err)) == codes.Unavailable, "without an engine: %v, want Unavailable", err)
}

func TestUpdateRuntimeConfig(t *testing.T) {
	for cidr, valid := range map[string]bool{
		"": true, "10.1.0.0/16": true, "10.1.0.0/16,fd00::/64": true, "10.1.0.0": false, "10.1.0.0/16,": false,
		"nonsense": false,
	} {
		n := newNode()
		_, err := n.UpdateRuntimeConfig(t.Context(), &runtimeapi.UpdateRuntimeConfigRequest{
			RuntimeConfig: &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: cidr}},
		})
		if !valid {
			wantInvalid(t, err, "runtime_config.network_config.pod_cidr")
			continue
		}
		testutil.Must(t, err)
		response, err := n.Status(t.Context(), &runtimeapi.StatusRequest{Verbose: true})
		testutil.Must(t, err)
		testutil.Equal(t, response.GetInfo()["podCIDR"], cidr, "the status shows")
	}
}

// conditions returns the conditions of a status by type.
func conditions(t *testing.T, n *node) map[string]*runtimeapi.RuntimeCondition {
	t.Helper()
	response, err := n.Status(t.Context(), &runtimeapi.StatusRequest{})
	testutil.Must(t, err)
	byType := map[string]*runtimeapi.RuntimeCondition{}
	for _, condition := range response.GetStatus().GetConditions() {
		byType[condition.GetType()] = condition
	}
	return byType
}

func TestConditions(t *testing.T) {
	refused := fmt.Errorf("the engine is rootless: %w", errdefs.ErrFailedPrecondition)
	noConfig := fmt.Errorf("no network configuration in /etc/cni/net.d: %w", errdefs.ErrUnavailable)
	for _, test := range []struct {
		name               string
		runtime, network   error
		runtimeReason, net string
	}{
		{name: "all is well"},
		{name: "engine away", runtime: errAway, runtimeReason: "EngineUnavailable"},
		{name: "engine refused", runtime: refused, runtimeReason: "EngineNotSupported"},
		{name: "no network", network: noConfig, net: "NetworkPluginNotReady"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNode()
			n.cache.err, n.network.err = test.runtime, test.network
			got := conditions(t, n)
			checkCondition(t, got[runtimeapi.RuntimeReady], test.runtime, test.runtimeReason)
			checkCondition(t, got[runtimeapi.NetworkReady], test.network, test.net)
		})
	}
}

func checkCondition(t *testing.T, got *runtimeapi.RuntimeCondition, err error, reason string) {
	t.Helper()
	testutil.Assert(t, got != nil && got.GetStatus() == (err == nil) && got.GetReason() == reason,
		"got %v, want reason %q", got, reason)
	if err != nil && got.GetMessage() != err.Error() {
		t.Errorf("the message is %q, want the reason in full", got.GetMessage())
	}
}

func TestBridgeModeNeedsNoNetworkPlugin(t *testing.T) {
	n := newNode()
	n.opts.Network = nil
	got := conditions(t, n)[runtimeapi.NetworkReady]
	testutil.Assert(t, got.GetStatus(), "got %v", got)
}

// A handler announces recursive read-only mounts if its runtime has them. The default handler announces what the
// default runtime has.
func TestRecursiveReadOnlyIsAnnounced(t *testing.T) {
	for _, c := range []struct {
		fallback, want string
	}{
		{"runc", "map[:true docker:true kata:false runc:true]"},
		{"kata", "map[:false docker:false kata:false runc:true]"},
	} {
		features := docker.Features{Runtimes: []string{"kata", "runc"}, DefaultRuntime: c.fallback,
			RecursiveReadOnly: []string{"runc"}}
		got := map[string]bool{}
		for _, handler := range new(Server).runtimeHandlers(features) {
			got[handler.GetName()] = handler.GetFeatures().GetRecursiveReadOnlyMounts()
		}
		testutil.Assert(t, fmt.Sprint(got) == c.want, "with the default %s: %v, want %s", c.fallback, got, c.want)
	}
}

// The default handler announces the features of criadapter-oci, and so does the runtime behind criadapter-oci.
func TestOCIRuntimeIsAnnounced(t *testing.T) {
	features := docker.Features{
		Runtimes: []string{"other", "runc"}, DefaultRuntime: "runc",
		OCIRuntime: docker.OCIRuntime{Name: "criadapter", RecursiveReadOnly: true},
	}
	got := map[string]bool{}
	for _, handler := range new(Server).runtimeHandlers(features) {
		got[handler.GetName()] = handler.GetFeatures().GetRecursiveReadOnlyMounts()
	}
	want := "map[:true docker:true other:false runc:true]"
	testutil.Assert(t, fmt.Sprint(got) == want, "got %v, want %s", got, want)
}

func TestRuntimeHandlers(t *testing.T) {
	n := newNode()
	check := func(want ...string) {
		t.Helper()
		response, err := n.Status(t.Context(), &runtimeapi.StatusRequest{})
		testutil.Must(t, err)
		var names []string
		for _, handler := range response.GetRuntimeHandlers() {
			names = append(names, handler.GetName())
			testutil.Assert(t, handler.GetFeatures() != nil && !handler.GetFeatures().GetUserNamespaces(),
				"the features of %q are %v", handler.GetName(), handler.GetFeatures())
		}
		testutil.Assert(t, fmt.Sprint(names) == fmt.Sprint(want), "the handlers are %q, want %q", names, want)
		testutil.Assert(t, response.GetFeatures() != nil && !response.GetFeatures().GetSupplementalGroupsPolicy(),
			"the features are %v", response.GetFeatures())
	}
	// The first call counts, because the kubelet publishes the node's features from it.
	check("", "io.containerd.runc.v2", "runc", "docker")
	n.engine.err = errAway
	check("", "io.containerd.runc.v2", "runc", "docker")
	n = newNode()
	n.engine.err = errAway
	check("")

	n = newNode()
	n.engine.features.Runtimes = []string{"kata", "runc"}
	n.engine.features.SandboxedRuntimes = []string{"kata"}
	n.engine.features.DefaultRuntime = "runc"
	check("", "runc", "docker")
	n.engine.features.DefaultRuntime = "kata"
	check("", "runc")
	n.opts.Network = nil
	check("", "kata", "runc", "docker")
	n.engine.features.Runtimes = []string{"docker", "runc"}
	check("", "docker", "runc")
}

// gVisor is a handler while criadapter-oci works.
func TestRuntimeOfPodSandboxesIsAHandler(t *testing.T) {
	for name, want := range map[string]bool{"": false, "criadapter": true} {
		n := newNode()
		f := &n.engine.features
		f.Runtimes, f.OCIRuntime.Name = []string{"gvisor", "runc"}, name
		f.SandboxedRuntimes, f.PodSandboxRuntimes = []string{"gvisor"}, []string{"gvisor"}
		response, err := n.Status(t.Context(), &runtimeapi.StatusRequest{})
		testutil.Must(t, err)
		got := slices.ContainsFunc(response.GetRuntimeHandlers(), func(h *runtimeapi.RuntimeHandler) bool {
			return h.GetName() == "gvisor" && !h.GetFeatures().GetUserNamespaces()
		})
		testutil.Assert(t, got == want, "with the OCI runtime %q gvisor is a handler: %t", name, got)
	}
}

// No pod may be scheduled if the default runtime is refused.
func TestRefusedDefaultRuntimeMakesTheNetworkNotReady(t *testing.T) {
	n := newNode()
	n.engine.features.Runtimes, n.engine.features.SandboxedRuntimes = []string{"kata", "runc"}, []string{"kata"}
	n.engine.features.DefaultRuntime = "kata"
	got := conditions(t, n)[runtimeapi.NetworkReady]
	testutil.Assert(t, !got.GetStatus() && got.GetReason() == "DefaultRuntimeNotSupported" &&
		strings.Contains(got.GetMessage(), `"kata"`), "with CNI: %v", got)
	testutil.Assert(t, conditions(t, n)[runtimeapi.RuntimeReady].GetStatus(),
		"RuntimeReady is false, though the engine answers")
	n.engine.features.DefaultRuntime = "runc"
	got = conditions(t, n)[runtimeapi.NetworkReady]
	testutil.Assert(t, got.GetStatus(), "with runc as the default: %v", got)
	n.engine.features.DefaultRuntime, n.opts.Network = "kata", nil
	got = conditions(t, n)[runtimeapi.NetworkReady]
	testutil.Assert(t, got.GetStatus(), "on the bridge: %v", got)
}

func TestVerboseStatus(t *testing.T) {
	n := newNode()
	n.opts.Config = func() any { return struct{ DockerEndpoint string }{"unix:///run/docker.sock"} }
	n.opts.Warnings = func(context.Context) []string { return []string{"a checkpoint is in quarantine"} }
	n.engine.features.NegativeOOMScore = false
	response, err := n.Status(t.Context(), &runtimeapi.StatusRequest{Verbose: true})
	testutil.Must(t, err)
	info := verbose(t, response.GetInfo())
	testutil.Equal(t, at(t, info, "config", "DockerEndpoint"), "unix:///run/docker.sock", "the config shows")
	testutil.Equal(t, at(t, info, "engine", "ServerVersion"), "20.10.24", "the engine shows")
	testutil.Equal(t, at(t, info, "cniconfig", "name"), "test-net", "the network shows")
	testutil.Equal(t, info["lastCNILoadStatus"], "OK", "the network's state shows")
	warnings := fmt.Sprint(at(t, info, "warnings", "messages"))
	for _, part := range []string{"oom_score_adj", "quarantine"} {
		testutil.Assert(t, strings.Contains(warnings, part), "no warning of %s in %s", part, warnings)
	}
	if response, err = n.Status(t.Context(), &runtimeapi.StatusRequest{}); err != nil || len(response.GetInfo()) != 0 {
		t.Errorf("without verbose: %v, %v", response.GetInfo(), err)
	}
}

// hungEngine never answers.
type hungEngine struct{}

func (hungEngine) Features(ctx context.Context) (docker.Features, error) {
	<-ctx.Done()
	return docker.Features{}, ctx.Err()
}

// Version and Status answer before crictl gives up, after 2 s.
func TestStatusWhileTheEngineHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &cache{Cache: state.New(state.Options{}), err: errdefs.ErrUnavailable.WithMessage("no answer")}
		s := New(Options{Cache: m, Engine: hungEngine{}})
		begun := time.Now()
		_, err := s.Version(t.Context(), &runtimeapi.VersionRequest{})
		testutil.Check(t, err)
		took := time.Since(begun)
		testutil.Assert(t, took < 2*time.Second, "Version took %s", took)
		begun = time.Now()
		response, err := s.Status(t.Context(), &runtimeapi.StatusRequest{Verbose: true})
		testutil.Assert(t, err == nil && !response.GetStatus().GetConditions()[0].GetStatus(),
			"got %v, %v", response, err)
		took = time.Since(begun)
		testutil.Assert(t, took < 2*time.Second, "Status took %s", took)
	})
}

func TestVerboseStatusWithoutAnEngine(t *testing.T) {
	n := newNode()
	n.engine.features, n.engine.err = docker.Features{}, errAway
	response, err := n.Status(t.Context(), &runtimeapi.StatusRequest{Verbose: true})
	testutil.Must(t, err)
	_, ok := response.GetInfo()["engine"]
	testutil.Assert(t, !ok, "Status shows an engine that was never reached")
	_, ok = response.GetInfo()["warnings"]
	testutil.Assert(t, !ok, "Status has warnings about an engine that was never reached")
}

// `crictl info` shows which fields the engine supports.
func TestStatusTellsWhatTheEngineCan(t *testing.T) {
	n := newNode()
	n.engine.features.NoCheckpoint = "the program criu"
	for _, cdi := range []bool{false, true} {
		n.engine.features.CDI = cdi
		response, err := n.Status(t.Context(), &runtimeapi.StatusRequest{Verbose: true})
		testutil.Must(t, err)
		var shown struct{ Abilities []fields.Ability }
		testutil.Must(t, json.Unmarshal([]byte(response.GetInfo()["fields"]), &shown))
		found := map[string]bool{}
		for _, ability := range shown.Abilities {
			for _, field := range ability.Fields {
				found[field] = ability.Available
			}
		}
		available, ok := found["CDIDevice.name"]
		testutil.Assert(t, ok && available == cdi, "CDI is shown: %t, available: %t, want %t", ok, available, cdi)
		available, ok = found["CheckpointContainerRequest.location"]
		testutil.Assert(t, ok && !available, "checkpoints are shown: %t, available: %t", ok, available)
	}
}
