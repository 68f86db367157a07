package devicemanager

import (
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/criadapter/criadapter/kubelet/jsonfile"
	"github.com/criadapter/criadapter/kubelet/model"
)

// grant is what a container has of a resource.
type grant struct {
	// Devices are ids of the plugin. Response is the plugin's ContainerAllocateResponse.
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

// records are kept on the disk.
type records struct {
	path string
	// Resources have had a plugin.
	Resources []v1.ResourceName `json:"resources"`
	// Pods has the grants by pod, container and resource.
	Pods map[types.UID]map[string]map[v1.ResourceName]grant `json:"pods"`
}

func openRecords(path string) (records, error) {
	r := records{path: path}
	_, err := jsonfile.Read(path, &r)
	if r.Pods == nil {
		r.Pods = map[types.UID]map[string]map[v1.ResourceName]grant{}
	}
	return r, err
}

func (r *records) save() error { return jsonfile.Write(r.path, r) }

// register adds a resource.
func (r *records) register(name v1.ResourceName) error {
	if slices.Contains(r.Resources, name) {
		return nil
	}
	r.Resources = append(r.Resources, name)
	return r.save()
}

func (r *records) find(in request) (grant, bool) {
	found, ok := r.Pods[in.pod.UID][in.container.Name][in.resource]
	return found, ok
}

func (r *records) set(in request, made grant) error {
	uid, name := in.pod.UID, in.container.Name
	if r.Pods[uid] == nil {
		r.Pods[uid] = map[string]map[v1.ResourceName]grant{}
	}
	if r.Pods[uid][name] == nil {
		r.Pods[uid][name] = map[v1.ResourceName]grant{}
	}
	before, had := r.Pods[uid][name][in.resource]
	r.Pods[uid][name][in.resource] = made
	err := r.save()
	if err != nil && had {
		r.Pods[uid][name][in.resource] = before
	} else if err != nil {
		delete(r.Pods[uid][name], in.resource)
	}
	return err
}

// keep drops the grants of other pods.
func (r *records) keep(exists func(types.UID) bool) error {
	kept := map[types.UID]map[string]map[v1.ResourceName]grant{}
	for uid, containers := range r.Pods {
		if exists(uid) {
			kept[uid] = containers
		}
	}
	if len(kept) == len(r.Pods) {
		return nil
	}
	before := r.Pods
	r.Pods = kept
	if err := r.save(); err != nil {
		r.Pods = before
		return err
	}
	return nil
}

// holders returns the devices of other containers, and devices that the container may share: init containers of a pod
// run one after the other, and before the others. Sidecars run on.
func (r *records) holders(in request, finished func(types.UID) bool) (taken, reusable map[string]bool) {
	taken, reusable = map[string]bool{}, map[string]bool{}
	for uid, containers := range r.Pods {
		if uid != in.pod.UID && finished(uid) {
			continue
		}
		for name, resources := range containers {
			into := taken
			if uid == in.pod.UID && (name == in.container.Name || endsBefore(in.pod, name)) {
				into = reusable
			}
			for _, id := range resources[in.resource].Devices {
				into[id] = true
			}
		}
	}
	for id := range taken { // an app container has it after an init container
		delete(reusable, id)
	}
	return taken, reusable
}

// endsBefore says whether a container of the pod is an init container that ends.
func endsBefore(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool {
		return c.Name == name && !model.IsSidecar(&c)
	})
}
