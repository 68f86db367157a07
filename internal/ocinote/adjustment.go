package ocinote

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Adjustment has the changes that plugins of the Node Resource Interface (NRI) make to a container. It applies after
// the rest of the note. The removals apply first, then the additions, then the patches of Config.
type Adjustment struct {
	// RemoveMounts are destinations, RemoveDevices are paths, and RemoveNamespaces are types.
	RemoveMounts     []string `json:"removeMounts,omitempty"`
	RemoveDevices    []string `json:"removeDevices,omitempty"`
	RemoveNamespaces []string `json:"removeNamespaces,omitempty"`
	// Mounts, Devices, Namespaces and Hooks are added like the fields of Note with these names. A namespace with an
	// empty path is new.
	Mounts     []Mount           `json:"mounts,omitempty"`
	Devices    []Device          `json:"devices,omitempty"`
	Namespaces map[string]string `json:"namespaces,omitempty"`
	Hooks      map[string][]Hook `json:"hooks,omitempty"`
	// Args replace the container's command, unless they are empty.
	Args []string `json:"args,omitempty"`
	// DeviceRules are added to linux.resources.devices.
	DeviceRules []json.RawMessage `json:"deviceRules,omitempty"`
	// Config are JSON merge patches (RFC 7396) of the configuration.
	Config []json.RawMessage `json:"config,omitempty"`
	// Process changes the container's own process and each process of an exec.
	Process ProcessAdjustment `json:"process,omitzero"`
	// OCIVersion is the version of the OCI runtime specification that the runtime must support, empty for any.
	OCIVersion string `json:"ociVersion,omitempty"`
}

// Empty reports whether nothing is adjusted.
func (a *Adjustment) Empty() bool { return reflect.ValueOf(*a).IsZero() }

// ProcessAdjustment has the plugins' changes to the processes of a container.
type ProcessAdjustment struct {
	// Patch is a JSON merge patch of the process.
	Patch json.RawMessage `json:"patch,omitempty"`
	// RemoveEnv are names of variables. Env are variables as NAME=value, which replace variables of the same name.
	RemoveEnv []string `json:"removeEnv,omitempty"`
	Env       []string `json:"env,omitempty"`
	// Rlimits replace the limits of the same types.
	Rlimits []Rlimit `json:"rlimits,omitempty"`
	// Groups are supplementary groups to add.
	Groups []uint32 `json:"groups,omitempty"`
}

// Rlimit is a limit of a process, such as RLIMIT_NOFILE.
type Rlimit struct {
	Type string `json:"type"`
	Hard uint64 `json:"hard"`
	Soft uint64 `json:"soft"`
}

// editPlugins applies the plugins' changes to the configuration. editPluginProcess applies Adjustment.Process.
func editPlugins(spec object, note Note) error {
	a := note.Plugins
	if a == nil {
		return nil
	}
	linux, err := spec.child("linux")
	if err != nil {
		return err
	}
	for _, removed := range []struct {
		from       object
		field, key string
		values     []string
	}{
		{spec, "mounts", "destination", a.RemoveMounts},
		{linux, "devices", "path", a.RemoveDevices},
		{linux, "namespaces", "type", a.RemoveNamespaces},
	} {
		if err := removed.from.remove(removed.field, removed.key, removed.values); err != nil {
			return err
		}
	}
	added := Note{Mounts: a.Mounts, Devices: a.Devices, Hooks: a.Hooks}
	for _, edit := range []func(object, Note) error{editMounts, editDevices, editHooks} {
		if err := edit(spec, added); err != nil {
			return err
		}
	}
	if err := addNamespaces(linux, a.Namespaces); err != nil {
		return err
	}
	if err := addDeviceRules(spec, a.DeviceRules); err != nil {
		return err
	}
	if len(a.Args) > 0 {
		process, err := spec.child("process")
		if err != nil {
			return err
		}
		process.setStrings("args", a.Args)
	}
	for _, patch := range a.Config {
		if err := spec.patch(patch); err != nil {
			return err
		}
	}
	return sortMounts(spec, a)
}

func addNamespaces(linux object, namespaces map[string]string) error {
	for kind, path := range namespaces {
		namespace := object{"type": kind}
		if path != "" {
			namespace["path"] = path
		}
		if err := linux.replace("namespaces", "type", namespace); err != nil {
			return err
		}
	}
	return nil
}

func addDeviceRules(spec object, rules []json.RawMessage) error {
	if len(rules) == 0 {
		return nil
	}
	resources, err := spec.child("linux", "resources")
	if err != nil {
		return err
	}
	list, err := resources.list("devices")
	if err != nil {
		return err
	}
	for _, rule := range rules {
		element, err := parse(rule)
		if err != nil {
			return err
		}
		list = append(list, element)
	}
	resources.setList("devices", list)
	return nil
}

// sortMounts puts mounts on parent directories before mounts below them, if plugins have added mounts.
func sortMounts(spec object, a *Adjustment) error {
	if len(a.Mounts) == 0 {
		return nil
	}
	mounts, err := spec.list("mounts")
	if err != nil {
		return err
	}
	slices.SortStableFunc(mounts, func(a, b object) int { return depth(a) - depth(b) })
	spec.setList("mounts", mounts)
	return nil
}

func depth(mount object) int {
	destination := strings.Trim(fmt.Sprint(mount["destination"]), "/")
	if destination == "" {
		return 0
	}
	return strings.Count(destination, "/") + 1
}

// editPluginProcess makes the changes of plugins to a process.
func editPluginProcess(process object, a *Adjustment) error {
	if a == nil {
		return nil
	}
	change := a.Process
	if len(change.Patch) > 0 {
		if err := process.patch(change.Patch); err != nil {
			return err
		}
	}
	env, err := process.strings("env")
	if err != nil {
		return err
	}
	if edited := change.EditEnv(env); len(edited) > 0 || len(env) > 0 {
		process.setStrings("env", edited)
	}
	limits, err := toObjects(change.Rlimits)
	if err != nil {
		return err
	}
	if err := process.replace("rlimits", "type", limits...); err != nil {
		return err
	}
	return addGroups(process, change.Groups)
}

// EditEnv returns variables with the changes.
func (p ProcessAdjustment) EditEnv(env []string) []string {
	gone := slices.Clone(p.RemoveEnv)
	for _, variable := range p.Env {
		name, _, _ := strings.Cut(variable, "=")
		gone = append(gone, name)
	}
	kept := slices.DeleteFunc(slices.Clone(env), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(gone, name)
	})
	return append(kept, p.Env...)
}

// remove removes objects from the list in a field. It removes each object whose text under key is one of values.
func (o object) remove(field, key string, values []string) error {
	if len(values) == 0 {
		return nil
	}
	objects, err := o.list(field)
	if err != nil {
		return err
	}
	o.setList(field, slices.DeleteFunc(objects, func(element object) bool {
		value, isText := element[key].(string)
		return isText && slices.Contains(values, value)
	}))
	return nil
}

// patch applies a JSON merge patch (RFC 7396).
func (o object) patch(text json.RawMessage) error {
	change, err := parse(text)
	if err != nil {
		return fmt.Errorf("merge patch: %w", err)
	}
	o.merged(change)
	return nil
}

func (o object) merged(change object) {
	for field, value := range change {
		switch value := value.(type) {
		case nil:
			delete(o, field)
		case map[string]any:
			child, err := o.child(field)
			if err != nil { // it is not an object: the patch replaces it
				child = object{}
				o[field] = child
			}
			child.merged(value)
		default:
			o[field] = value
		}
	}
}
