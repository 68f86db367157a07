package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// shimVersion is the version in every checkpoint, whatever its layout.
const shimVersion = "v1"

// errChecksum says that a checkpoint's checksum does not match its data.
var errChecksum = errors.New("checksum does not match, the file is damaged")

// shimCheckpoint is cri-dockerd's file of a sandbox, sandbox/ID below its root directory. dockershim had it below
// /var/lib/dockershim (Kubernetes 1.12 to 1.23). The file still has the pod's data when the sandbox container is gone
// from the engine.
type shimCheckpoint struct {
	Version   string    `json:"version"`
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	Data      *shimData `json:"data,omitempty"`
	// Checksum is the 32-bit FNV-1a hash of Data in go-spew's form, see shimLayout.
	Checksum uint64 `json:"checksum"`
}

type shimData struct {
	PortMappings []*shimPort `json:"port_mappings,omitempty"`
	HostNetwork  bool        `json:"host_network,omitempty"`
}

type shimPort struct {
	Protocol      *string `json:"protocol,omitempty"`
	ContainerPort *int32  `json:"container_port,omitempty"`
	HostPort      *int32  `json:"host_port,omitempty"`
	HostIP        string  `json:"host_ip,omitempty"`
}

// shimLayout has the Go packages of a shim's types. A checksum depends on them, because go-spew prints type names with
// their packages.
type shimLayout struct {
	data, port string
	// hostIP says that the type PortMapping has a field HostIP.
	hostIP bool
}

// criDockerdLayout is the layout of cri-dockerd v0.4.3.
var criDockerdLayout = shimLayout{data: "core", port: "config", hostIP: true}

// shimLayouts are all known layouts.
func shimLayouts() []shimLayout {
	return []shimLayout{
		criDockerdLayout,
		{data: "core", port: "core", hostIP: true},
		{data: "dockershim", port: "dockershim", hostIP: true},
		{data: "dockershim", port: "dockershim"},
	}
}

// parseCheckpoint reads a checkpoint and verifies it. After an error, none of its data is valid.
func parseCheckpoint(content []byte) (*shimCheckpoint, error) {
	var c shimCheckpoint
	if err := json.Unmarshal(content, &c); err != nil {
		return nil, fmt.Errorf("not a checkpoint: %w", err)
	}
	if c.Version != shimVersion {
		return nil, fmt.Errorf("version %q is unknown", c.Version)
	}
	if c.Data == nil {
		return nil, errors.New("data is missing")
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	for _, layout := range shimLayouts() {
		if layout.checksum(c.Data) == c.Checksum {
			return &c, nil
		}
	}
	return nil, errChecksum
}

// validate refuses data that no shim writes, because the ports go to CNI plugins.
func (c *shimCheckpoint) validate() error {
	for i, port := range c.Data.PortMappings {
		if port == nil {
			return fmt.Errorf("data.port_mappings[%d] is null", i)
		}
		for _, number := range []*int32{port.ContainerPort, port.HostPort} {
			if number != nil && (*number < 0 || *number > 65535) {
				return fmt.Errorf("data.port_mappings[%d]: %d is not a port", i, *number)
			}
		}
		if _, err := port.protocol(); err != nil {
			return fmt.Errorf("data.port_mappings[%d]: %w", i, err)
		}
	}
	return nil
}

// protocol is tcp if the file has none.
func (p *shimPort) protocol() (runtimeapi.Protocol, error) {
	if p.Protocol == nil {
		return runtimeapi.Protocol_TCP, nil
	}
	number, known := runtimeapi.Protocol_value[strings.ToUpper(*p.Protocol)]
	if !known {
		return 0, fmt.Errorf("%q is not a protocol", *p.Protocol)
	}
	return runtimeapi.Protocol(number), nil
}

// ports returns the port mappings in CRI's form.
func (c *shimCheckpoint) ports() []*runtimeapi.PortMapping {
	var ports []*runtimeapi.PortMapping
	for _, port := range c.Data.PortMappings {
		protocol, _ := port.protocol() // validated
		ports = append(ports, &runtimeapi.PortMapping{
			Protocol: protocol, ContainerPort: number(port.ContainerPort), HostPort: number(port.HostPort),
			HostIp: port.HostIP,
		})
	}
	return ports
}

func number(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// newCheckpoint is the checkpoint that cri-dockerd v0.4.3 would have written for a pod.
func newCheckpoint(config *runtimeapi.PodSandboxConfig, hostNetwork bool) *shimCheckpoint {
	data := &shimData{HostNetwork: hostNetwork}
	for _, m := range config.GetPortMappings() {
		protocol, container, host := strings.ToLower(m.GetProtocol().String()), m.GetContainerPort(), m.GetHostPort()
		data.PortMappings = append(data.PortMappings, &shimPort{
			Protocol: &protocol, ContainerPort: &container, HostPort: &host, HostIP: m.GetHostIp(),
		})
	}
	return &shimCheckpoint{
		Version: shimVersion, Name: config.GetMetadata().GetName(), Namespace: config.GetMetadata().GetNamespace(),
		Data: data, Checksum: criDockerdLayout.checksum(data),
	}
}

// checksum is the checksum of valid data in this layout.
func (l shimLayout) checksum(data *shimData) uint64 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(l.print(data))) // never fails
	return uint64(hash.Sum32())
}

// print returns go-spew's "%#v" of the data, with pointers followed and without their addresses.
func (l shimLayout) print(data *shimData) string {
	var b strings.Builder
	fmt.Fprintf(&b, "(%s.CheckpointData){PortMappings:([]*%s.PortMapping)", l.data, l.port)
	if data.PortMappings == nil {
		b.WriteString("<nil>")
	} else {
		b.WriteByte('[')
		for i, port := range data.PortMappings {
			if i > 0 {
				b.WriteByte(' ')
			}
			l.printPort(&b, port)
		}
		b.WriteByte(']')
	}
	fmt.Fprintf(&b, " HostNetwork:(bool)%t}", data.HostNetwork)
	return b.String()
}

func (l shimLayout) printPort(b *strings.Builder, port *shimPort) {
	protocol := "<nil>"
	if port.Protocol != nil {
		protocol = *port.Protocol
	}
	fmt.Fprintf(b, "<*>{Protocol:(*%s.Protocol)%s ContainerPort:(*int32)%s HostPort:(*int32)%s",
		l.port, protocol, printNumber(port.ContainerPort), printNumber(port.HostPort))
	if l.hostIP {
		b.WriteString(" HostIP:(string)" + port.HostIP)
	}
	b.WriteByte('}')
}

func printNumber(n *int32) string {
	if n == nil {
		return "<nil>"
	}
	return strconv.FormatInt(int64(*n), 10)
}
