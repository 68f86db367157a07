package translate

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// ReadCDI returns the edits that CDI devices make in a container. devices are their full names. ReadCDIDevices
// implements it.
type ReadCDI func(devices []string) (CDIEdits, error)

// CDIEdits has the changes that CDI devices make in a container. Names, units and meanings are as in containerEdits of
// the CDI specification 1.1.
type CDIEdits struct {
	// env replaces variables of the same name. Each is NAME=value.
	env     []string
	groups  []uint32
	devices []ocinote.Device
	mounts  []ocinote.Mount
	hooks   map[string][]ocinote.Hook
	// intelRDT is empty for none.
	intelRDT json.RawMessage
}

// cdiDriver is the engine's device driver for CDI.
const cdiDriver = "cdi"

// cdiAnnotation is the prefix of annotations that name CDI devices, separated by commas. Kubelets before 1.31 and
// clients without the field CDI_devices send such annotations. Some clients send both the field and annotations.
const cdiAnnotation = "cdi.k8s.io/"

// cdiRequest is a CDI device and the field that names it.
type cdiRequest struct{ field, name string }

// cdiRequests are a container's CDI devices, each once.
func cdiRequests(config *runtimeapi.ContainerConfig) ([]cdiRequest, error) {
	var all []cdiRequest
	for i, d := range config.GetCDIDevices() {
		all = append(all, cdiRequest{item("config.CDI_devices", i) + ".name", d.GetName()})
	}
	for _, key := range slices.Sorted(maps.Keys(config.GetAnnotations())) {
		if !strings.HasPrefix(key, cdiAnnotation) {
			continue
		}
		for name := range strings.SplitSeq(config.GetAnnotations()[key], ",") {
			all = append(all, cdiRequest{"config.annotations[" + key + "]", name})
		}
	}
	var once []cdiRequest
	for _, r := range all {
		if err := checkCDIName(r.field, r.name); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(once, func(other cdiRequest) bool { return other.name == r.name }) {
			once = append(once, r)
		}
	}
	return once, nil
}

// cdiDevices sets the container's CDI devices. An engine with CDI makes the edits itself, for any runtime. For other
// engines, the container's configuration and its note get the edits.
func cdiDevices(in ContainerInput, config *container.Config, host *container.HostConfig, more *extra) error {
	requests, err := cdiRequests(in.Config)
	if err != nil || len(requests) == 0 {
		return err
	}
	var names []string
	for _, r := range requests {
		names = append(names, r.name)
	}
	if in.Features.CDI {
		host.DeviceRequests = []container.DeviceRequest{{Driver: cdiDriver, DeviceIDs: names}}
		in.cdiForCommands(names, config, host, more.note)
		return nil
	}
	if in.ReadCDI == nil || !more.offered() {
		return unsupported(requests[0].field,
			"this engine (%s) injects no CDI devices: use Docker Engine 28.2 or newer, or 25 with features.cdi of "+
				"daemon.json, or the OCI runtime criadapter-oci in front of the engine's default one (see "+
				"docs/oci-runtime.md)", in.Features.ServerVersion)
	}
	edits, err := in.ReadCDI(names)
	if err != nil {
		return invalid(requests[0].field, "%v", err)
	}
	return edits.set(requests[0].field, config, host, more)
}

// cdiForCommands sets the variables and groups of CDI devices in the container's configuration, so that commands in the
// container get them, too. The engine injects them only at the container's start. cdiForCommands skips a device that it
// cannot read. The engine may have other directories (cdi-spec-dirs), or refuses the device.
func (in ContainerInput) cdiForCommands(
	names []string, config *container.Config, host *container.HostConfig, note *ocinote.Note,
) {
	if in.ReadCDI == nil {
		return
	}
	for _, name := range names {
		if edits, err := in.ReadCDI([]string{name}); err == nil {
			edits.setProcess(config, host, note)
		}
	}
}

// set makes the edits: variables and groups by the Docker API, all others by the note.
func (e CDIEdits) set(field string, config *container.Config, host *container.HostConfig, more *extra) error {
	note, err := more.need(field, "a CDI device")
	if err != nil {
		return err
	}
	e.setProcess(config, host, note)
	note.Devices, note.Mounts = append(note.Devices, e.devices...), append(note.Mounts, e.mounts...)
	note.Hooks, note.IntelRDT = e.hooks, e.intelRDT
	return nil
}

// setProcess sets the variables and groups for the container and its commands. note may be nil.
func (e CDIEdits) setProcess(config *container.Config, host *container.HostConfig, note *ocinote.Note) {
	for _, variable := range e.env {
		name, _, _ := strings.Cut(variable, "=")
		config.Env = slices.DeleteFunc(config.Env, func(other string) bool {
			return strings.HasPrefix(other, name+"=")
		})
		config.Env = append(config.Env, variable)
	}
	for _, group := range e.groups {
		host.GroupAdd = append(host.GroupAdd, strconv.FormatUint(uint64(group), 10))
		if note != nil && note.Process.Groups != nil {
			*note.Process.Groups = append(*note.Process.Groups, group)
		}
	}
}

// checkCDIName accepts vendor/class=name.
func checkCDIName(field, name string) error {
	kind, id, ok := strings.Cut(name, "=")
	if !ok || id == "" || path.Dir(kind) == "." || path.Base(kind) == "." || strings.HasSuffix(kind, "/") {
		return invalid(field, "%q is not a CDI device, vendor/class=name", name)
	}
	return checkText(field, name)
}

// Adjust adds the edits to the adjustment of plugins.
func (e CDIEdits) Adjust(a *ocinote.Adjustment) {
	a.Process.Env = append(a.Process.Env, e.env...)
	a.Process.Groups = append(a.Process.Groups, e.groups...)
	a.Devices, a.Mounts = append(a.Devices, e.devices...), append(a.Mounts, e.mounts...)
	for when, hooks := range e.hooks {
		if a.Hooks == nil {
			a.Hooks = map[string][]ocinote.Hook{}
		}
		a.Hooks[when] = append(a.Hooks[when], hooks...)
	}
	if len(e.intelRDT) > 0 {
		a.Config = append(a.Config, json.RawMessage(`{"linux":{"intelRdt":`+string(e.intelRDT)+`}}`))
	}
}
