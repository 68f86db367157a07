package migrate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/netns"
)

// Values of podPlan.network other than the name of a CNI network.
const (
	networkHost   = "host"
	networkDocker = "docker"
	networkCNI    = "cni"
)

// seen has the facts about one pod.
type seen struct {
	id string
	// sandbox is nil if the engine has no such container.
	sandbox    *container.InspectResponse
	containers []seenContainer
	// record is our record, nil for none.
	record *checkpoint.Record
	// shim is cri-dockerd's checkpoint, nil for none. shimErr is why it cannot be used.
	shim    *shimCheckpoint
	shimErr error
	// attachment is the entry in libcni's cache, nil for none.
	attachment *cni.Attachment
	// addresses are the addresses in the pod's namespace. addressErr is why they could not be read.
	addresses  []string
	addressErr error
	// resolvConf is the sandbox's resolv.conf. resolvErr is why it could not be read.
	resolvConf string
	resolvErr  error
	// defaultRuntime is the engine's default runtime.
	defaultRuntime string
}

// seenContainer is a container of another shim in the pod.
type seenContainer struct {
	inspect *container.InspectResponse
	// linked says that the container's log is a link to the engine's file, whose size is known. kept is this size, in
	// bytes.
	linked bool
	kept   int64
}

// plan plans the migration of a pod. It returns nil if there is nothing to do.
func (s *seen) plan(netnsDir string, keepLinks bool) (*podPlan, error) {
	pod := &podPlan{id: s.id, containers: len(s.containers), running: isRunning(s.sandbox)}
	if s.record != nil {
		pod.record = *s.record
		pod.network = networkOf(s.record.Network, s.networkMode())
	} else if err := s.newRecord(pod, netnsDir); err != nil {
		return nil, fmt.Errorf("pod sandbox %s: %w", s.id, err)
	}
	pod.name = pod.record.Namespace + "/" + pod.record.Name
	if pod.record.Network != nil {
		pod.ips = pod.record.Network.IPs
	}
	known := pod.record.Containers
	pod.record.Containers = maps.Clone(known)
	if known == nil {
		pod.record.Containers = map[string]checkpoint.Container{}
	}
	for _, c := range s.containers {
		if err := pod.add(c, keepLinks); err != nil {
			return nil, err
		}
	}
	if s.record != nil && len(pod.logs) == 0 && len(pod.record.Containers) == len(known) {
		return nil, nil
	}
	return pod, nil
}

// add records a container and adds its log.
func (p *podPlan) add(c seenContainer, keepLinks bool) error {
	kept, ok := p.record.Containers[c.inspect.ID]
	if !ok {
		config, err := containerConfig(c.inspect)
		if err != nil {
			return fmt.Errorf("container %s: %w", c.inspect.ID, err)
		}
		if kept.Config, err = protojson.Marshal(config); err != nil {
			return fmt.Errorf("container %s: %w", c.inspect.ID, err)
		}
		p.record.Containers[c.inspect.ID] = kept
	}
	if keepLinks {
		return nil
	}
	if l := continued(c.inspect, c.linked); l != nil {
		l.kept = c.kept
		p.logs = append(p.logs, l)
	} else if note := logNote(c.inspect); note != "" {
		p.notes = append(p.notes, note)
	}
	return nil
}

// newRecord makes the record of a pod without one.
func (s *seen) newRecord(pod *podPlan, netnsDir string) error {
	if s.shimErr != nil {
		pod.notes = append(pod.notes, fmt.Sprintf("cri-dockerd's checkpoint is not used: %v", s.shimErr))
	}
	if s.resolvErr != nil {
		pod.notes = append(pod.notes, fmt.Sprintf("its DNS configuration is not recorded: %v", s.resolvErr))
	}
	config, err := s.config()
	if err != nil {
		return err
	}
	raw, err := protojson.Marshal(config)
	if err != nil {
		return err
	}
	metadata := config.GetMetadata()
	pod.record = checkpoint.Record{
		SandboxID: s.id, Name: metadata.GetName(), Namespace: metadata.GetNamespace(), UID: metadata.GetUid(),
		Attempt: metadata.GetAttempt(),
		Phase:   checkpoint.PhaseReady, Config: raw,
	}
	if s.sandbox != nil {
		pod.record.CreatedAt = docker.ParseTime(s.sandbox.Created) // zero means unknown
	}
	pod.record.RuntimeHandler, pod.record.Runtime = s.runtime()
	s.connect(pod)
	if pod.network != networkHost && pod.network != networkDocker {
		pod.record.NetnsPath = netns.PodPin(netnsDir, s.id)
		switch {
		// FinishedAt is the end of an earlier run: the running sandbox was restarted.
		case pod.running && !docker.ParseTime(s.sandbox.State.FinishedAt).IsZero():
			// If the new network namespace were pinned, the pod would be READY without a network.
			pod.notes = append(pod.notes, "its sandbox was restarted and has lost its network, it will not be ready")
		case pod.running:
			pod.pid = s.sandbox.State.Pid
		}
	}
	return nil
}

// runtime returns the sandbox's runtime and the handler for it. cri-dockerd gives all containers of a pod the sandbox's
// runtime. The handler of the engine's default runtime is empty.
func (s *seen) runtime() (handler, runtime string) {
	if s.sandbox == nil || s.sandbox.HostConfig == nil {
		return "", ""
	}
	runtime = s.sandbox.HostConfig.Runtime
	if runtime != s.defaultRuntime {
		handler = runtime
	}
	return handler, runtime
}

// connect records the pod's network.
func (s *seen) connect(pod *podPlan) {
	pod.network = s.networkMode()
	if pod.network != networkCNI {
		return
	}
	network := checkpoint.Network{IPs: s.addresses}
	if a := s.attachment; a != nil {
		pod.attachment = a
		network.Config, network.Result = a.Network, json.RawMessage(a.Raw)
		if len(network.IPs) == 0 {
			network.IPs = a.IPs
		}
	} else {
		pod.notes = append(pod.notes,
			"no entry in a CNI cache, CNI DEL will use the present network configuration")
	}
	if s.addressErr != nil {
		pod.notes = append(pod.notes, fmt.Sprintf("its network namespace could not be visited: %v", s.addressErr))
	}
	if pod.running && len(network.IPs) == 0 {
		pod.notes = append(pod.notes, "it has no address")
	}
	pod.record.Network = &network
	pod.network = networkOf(&network, networkCNI)
}

func networkOf(network *checkpoint.Network, otherwise string) string {
	if network == nil || network.Config == "" {
		return otherwise
	}
	return network.Config
}

// networkMode returns the kind of network that cri-dockerd gave the pod. For a pod of a CNI network, cri-dockerd sets
// the engine's network mode to none.
func (s *seen) networkMode() string {
	switch {
	case s.sandbox == nil && s.shim != nil && s.shim.Data.HostNetwork:
		return networkHost
	case s.sandbox == nil || s.sandbox.HostConfig == nil:
		return networkCNI
	case s.sandbox.HostConfig.NetworkMode.IsHost():
		return networkHost
	case s.sandbox.HostConfig.NetworkMode.IsNone():
		return networkCNI
	case len(docker.Addresses(s.sandbox)) > 0 || s.attachment == nil:
		return networkDocker
	default:
		return networkCNI
	}
}

// config rebuilds the client's configuration of the pod.
func (s *seen) config() (*runtimeapi.PodSandboxConfig, error) {
	if s.sandbox == nil {
		return s.lostConfig(), nil
	}
	config, err := translate.PodConfig(s.sandbox.Config.Labels, s.sandbox.Name)
	if err != nil {
		return nil, err
	}
	config.DnsConfig = parseResolvConf(s.resolvConf)
	config.PortMappings = s.ports()
	config.Linux = &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: s.namespaces(),
	}}
	if host := s.sandbox.HostConfig; host != nil {
		config.Linux.CgroupParent, config.Linux.Sysctls = host.CgroupParent, host.Sysctls
		config.Linux.SecurityContext.Privileged = host.Privileged
	}
	if s.networkMode() != networkHost {
		config.Hostname = s.sandbox.Config.Hostname
	}
	for _, c := range s.containers {
		if dir := logDirectory(containerName(c.inspect), translate.LogPath(c.inspect.Config.Labels)); dir != "" {
			config.LogDirectory = dir
		}
	}
	return config, nil
}

// lostConfig returns the configuration of a pod that has a checkpoint but no sandbox container.
func (s *seen) lostConfig() *runtimeapi.PodSandboxConfig {
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: s.shim.Name, Namespace: s.shim.Namespace},
		PortMappings: s.ports(),
	}
	if s.shim.Data.HostNetwork {
		options := &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}
		config.Linux = &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: options}}
	}
	return config
}

func (s *seen) namespaces() *runtimeapi.NamespaceOption {
	options := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	if s.networkMode() == networkHost {
		options.Network = runtimeapi.NamespaceMode_NODE
	}
	if host := s.sandbox.HostConfig; host != nil {
		if host.IpcMode.IsHost() {
			options.Ipc = runtimeapi.NamespaceMode_NODE
		}
		if host.PidMode.IsHost() {
			options.Pid = runtimeapi.NamespaceMode_NODE
		}
	}
	for _, c := range s.containers {
		shared := c.inspect.HostConfig != nil && c.inspect.HostConfig.PidMode.Container() == s.id
		if shared && options.Pid == runtimeapi.NamespaceMode_CONTAINER {
			options.Pid = runtimeapi.NamespaceMode_POD
		}
	}
	return options
}

// ports returns the port mappings of the checkpoint. Without a checkpoint, it returns the engine's port mappings.
func (s *seen) ports() []*runtimeapi.PortMapping {
	if s.shim != nil {
		return s.shim.ports()
	}
	if s.sandbox == nil || s.sandbox.HostConfig == nil {
		return nil
	}
	var ports []*runtimeapi.PortMapping
	for port, bindings := range s.sandbox.HostConfig.PortBindings {
		protocol, known := runtimeapi.Protocol_value[strings.ToUpper(string(port.Proto()))]
		for _, binding := range bindings {
			host, err := strconv.ParseUint(binding.HostPort, 10, 16)
			if err != nil || !known {
				continue // CRI has no range of ports
			}
			mapping := &runtimeapi.PortMapping{Protocol: runtimeapi.Protocol(protocol),
				ContainerPort: int32(port.Num()), HostPort: int32(host)}
			if binding.HostIP.IsValid() && !binding.HostIP.IsUnspecified() {
				mapping.HostIp = binding.HostIP.String()
			}
			ports = append(ports, mapping)
		}
	}
	slices.SortFunc(ports, func(a, b *runtimeapi.PortMapping) int { return int(a.HostPort - b.HostPort) })
	return ports
}

// parseResolvConf reads a resolv.conf of cri-dockerd. It returns nil for an empty one.
func parseResolvConf(text string) *runtimeapi.DNSConfig {
	config := &runtimeapi.DNSConfig{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			config.Servers = append(config.Servers, fields[1])
		case "search":
			config.Searches = fields[1:]
		case "options":
			config.Options = fields[1:]
		}
	}
	if proto.Size(config) == 0 {
		return nil
	}
	return config
}
