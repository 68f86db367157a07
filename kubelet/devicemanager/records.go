package devicemanager

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/criadapter/criadapter/kubelet/grants"
	"github.com/criadapter/criadapter/kubelet/jsonfile"
)

// grant has a container's devices of one resource.
type grant struct {
	// Devices are the plugin's device ids. Response is the plugin's ContainerAllocateResponse.
	Devices  []string        `json:"devices"`
	Response json.RawMessage `json:"response"`
}

func newGrant(devices []string, response *pluginapi.ContainerAllocateResponse) (grant, error) {
	text, err := protojson.Marshal(response)
	return grant{Devices: devices, Response: text}, err
}

func (g *grant) response() (*pluginapi.ContainerAllocateResponse, error) {
	var response pluginapi.ContainerAllocateResponse
	return &response, protojson.Unmarshal(g.Response, &response)
}

// records are the manager's files: the grants, and the names of known resources.
type records struct {
	grants *grants.Grants[map[v1.ResourceName]grant]
	// resources are the names of all resources that ever had a plugin. path is their file.
	path      string
	resources []v1.ResourceName
}

func openRecords(dir string) (r records, err error) {
	r.path = filepath.Join(dir, "device-resources.json")
	if _, err := jsonfile.Read(r.path, &r.resources); err != nil {
		return r, jsonfile.Advise(r.path, err, "remove the file")
	}
	path := filepath.Join(dir, "devices.json")
	if r.grants, err = grants.Open[map[v1.ResourceName]grant](path); err != nil {
		return r, fmt.Errorf("devices of containers: %w",
			jsonfile.Advise(path, err, "remove the file when no container has a device"))
	}
	return r, nil
}

// register adds a resource.
func (r *records) register(name v1.ResourceName) error {
	if slices.Contains(r.resources, name) {
		return nil
	}
	all := append(slices.Clip(r.resources), name)
	if err := jsonfile.Write(r.path, all); err != nil {
		return err
	}
	r.resources = all
	return nil
}

func (r *records) find(in request) (grant, bool) {
	of, _ := r.grants.Get(in.pod.UID, in.container.Name)
	found, ok := of[in.resource]
	return found, ok
}

func (r *records) set(in request, made grant) error {
	of, _ := r.grants.Get(in.pod.UID, in.container.Name)
	all := map[v1.ResourceName]grant{in.resource: made}
	for name, other := range of {
		if name != in.resource {
			all[name] = other
		}
	}
	return r.grants.Set(in.pod.UID, in.container.Name, all)
}

// holders returns the devices that other containers have, and the devices that the container may share.
func (r *records) holders(in request, finished func(types.UID) bool) (taken, reusable map[string]bool) {
	devices := func(all []map[v1.ResourceName]grant) map[string]bool {
		ids := map[string]bool{}
		for _, of := range all {
			for _, id := range of[in.resource].Devices {
				ids[id] = true
			}
		}
		return ids
	}
	others, shared := r.grants.Others(in.pod, in.container.Name, finished)
	taken, reusable = devices(others), devices(shared)
	maps.DeleteFunc(reusable, func(id string, _ bool) bool { return taken[id] })
	return taken, reusable
}
