package migrate

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/davecgh/go-spew/spew"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// The types as the shims declare them: go-spew prints their names.
type (
	Protocol    string
	PortMapping struct {
		Protocol      *Protocol
		ContainerPort *int32
		HostPort      *int32
		HostIP        string
	}
	CheckpointData struct {
		PortMappings []*PortMapping
		HostNetwork  bool
	}
)

func TestChecksumEqualsSpews(t *testing.T) {
	tcp, port, host := "tcp", int32(80), int32(8080)
	for name, data := range map[string]shimData{
		"nothing":       {},
		"host network":  {HostNetwork: true},
		"an empty list": {PortMappings: []*shimPort{}},
		"ports": {PortMappings: []*shimPort{
			{Protocol: &tcp, ContainerPort: &port, HostPort: &host, HostIP: "127.0.0.1"},
			{Protocol: &tcp, ContainerPort: &port, HostPort: &host},
		}},
		"a port without values": {PortMappings: []*shimPort{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			printer := spew.ConfigState{Indent: " ", SortKeys: true, DisableMethods: true, SpewKeys: true}
			want := printer.Sprintf("%#v", asDeclared(data))
			layout := shimLayout{data: "migrate", port: "migrate", hostIP: true}
			testutil.Equal(t, layout.print(&data), want, "print")
		})
	}
}

// asDeclared is the data in the types of a shim.
func asDeclared(data shimData) CheckpointData {
	declared := CheckpointData{HostNetwork: data.HostNetwork}
	if data.PortMappings != nil {
		declared.PortMappings = []*PortMapping{}
	}
	for _, port := range data.PortMappings {
		var mapping *PortMapping
		if port != nil {
			mapping = &PortMapping{Protocol: (*Protocol)(port.Protocol), ContainerPort: port.ContainerPort,
				HostPort: port.HostPort, HostIP: port.HostIP}
		}
		declared.PortMappings = append(declared.PortMappings, mapping)
	}
	return declared
}

func TestParseCheckpoint(t *testing.T) {
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "shop"},
		PortMappings: []*runtimeapi.PortMapping{
			{Protocol: runtimeapi.Protocol_UDP, ContainerPort: 53, HostPort: 5353, HostIp: "10.0.0.1"},
			{ContainerPort: 80},
		},
	}
	for _, layout := range shimLayouts() {
		written := newCheckpoint(config, true)
		if !layout.hostIP {
			written.Data.PortMappings[0].HostIP = ""
		}
		written.Checksum = layout.checksum(written.Data)
		got, err := parseCheckpoint(marshal(t, written))
		testutil.Require(t, err == nil, "%+v: %v", layout, err)
		want := proto.CloneOf(config)
		if !layout.hostIP {
			want.PortMappings[0].HostIp = ""
		}
		testutil.Assert(t, got.Name == "web" && got.Namespace == "shop" && got.Data.HostNetwork &&
			proto.Equal(&runtimeapi.PodSandboxConfig{Metadata: want.Metadata, PortMappings: got.ports()}, want),
			"%+v: got %+v", layout, got)
	}
}

func TestDamagedCheckpoints(t *testing.T) {
	whole := newCheckpoint(&runtimeapi.PodSandboxConfig{
		PortMappings: []*runtimeapi.PortMapping{{ContainerPort: 80, HostPort: 8080}},
	}, false)
	changed := func(change func(*shimCheckpoint)) []byte {
		var c shimCheckpoint
		testutil.Must(t, json.Unmarshal(marshal(t, whole), &c))
		change(&c)
		return marshal(t, &c)
	}
	resummed := func(change func(*shimData)) []byte {
		return changed(func(c *shimCheckpoint) {
			change(c.Data)
			if c.Data.PortMappings[len(c.Data.PortMappings)-1] != nil {
				c.Checksum = criDockerdLayout.checksum(c.Data)
			}
		})
	}
	bad, odd := int32(70000), "carrier pigeon"
	for name, content := range map[string][]byte{
		"empty":                    nil,
		"cut short":                marshal(t, whole)[:40],
		"of another version":       changed(func(c *shimCheckpoint) { c.Version = "v2" }),
		"without data":             changed(func(c *shimCheckpoint) { c.Data = nil }),
		"with another port":        changed(func(c *shimCheckpoint) { *c.Data.PortMappings[0].HostPort++ }),
		"with another checksum":    changed(func(c *shimCheckpoint) { c.Checksum++ }),
		"with a port out of range": resummed(func(d *shimData) { d.PortMappings[0].HostPort = &bad }),
		"with a null":              resummed(func(d *shimData) { d.PortMappings = append(d.PortMappings, nil) }),
		"with an unknown protocol": resummed(func(d *shimData) { d.PortMappings[0].Protocol = &odd }),
	} {
		got, err := parseCheckpoint(content)
		testutil.Assert(t, err != nil, "a checkpoint %s reads as %+v", name, got)
	}
	_, err := parseCheckpoint(changed(func(c *shimCheckpoint) { c.Checksum++ }))
	testutil.Assert(t, errors.Is(err, errChecksum), "got %v", err)
}

func FuzzParseCheckpoint(f *testing.F) {
	f.Add([]byte(`{"version":"v1","name":"a","namespace":"b","data":{},"checksum":1}`))
	f.Add([]byte(`{"version":"v1","name":"a","namespace":"b","data":{"port_mappings":[{"protocol":"tcp","container_port":80,"host_port":1}]},"checksum":1}`))
	f.Add([]byte(`{"version":"v1","data":{"port_mappings":[null,{}],"host_network":true},"checksum":18446744073709551615}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		var c shimCheckpoint
		if json.Unmarshal(content, &c) == nil && c.Data != nil && c.validate() == nil { // so some pass the checksum
			c.Version, c.Checksum = shimVersion, criDockerdLayout.checksum(c.Data)
			content = marshal(t, &c)
		}
		got, err := parseCheckpoint(content)
		if err != nil {
			return
		}
		config := &runtimeapi.PodSandboxConfig{
			Metadata:     &runtimeapi.PodSandboxMetadata{Name: got.Name, Namespace: got.Namespace},
			PortMappings: got.ports(),
		}
		again, err := parseCheckpoint(marshal(t, newCheckpoint(config, got.Data.HostNetwork)))
		testutil.Require(t, err == nil, "%s, written again: %v", content, err)
		testutil.Assert(t, proto.Equal(&runtimeapi.PodSandboxConfig{PortMappings: again.ports()},
			&runtimeapi.PodSandboxConfig{PortMappings: got.ports()}) &&
			again.Data.HostNetwork == got.Data.HostNetwork,
			"%s, written again, reads as %+v", content, again)
	})
}

func marshal(t *testing.T, c *shimCheckpoint) []byte {
	t.Helper()
	content, err := json.Marshal(c)
	testutil.Must(t, err)
	return content
}
