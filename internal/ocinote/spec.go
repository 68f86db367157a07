package ocinote

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// EditSpec returns the OCI configuration (config.json) with the note's changes. It fails if a part to change has a form
// that the specification does not allow, and names the part.
func EditSpec(config []byte, note Note) ([]byte, error) {
	spec, err := parse(config)
	if err != nil {
		return nil, fmt.Errorf("OCI configuration: %w", err)
	}
	for _, edit := range []func(object, Note) error{
		editNamespaces, editIdentity, editMounts, editContainerProcess, editResources, editDevices, editHooks,
		editSeccomp, editPlugins,
	} {
		if err := edit(spec, note); err != nil {
			return nil, fmt.Errorf("OCI configuration: %w", err)
		}
	}
	return json.Marshal(spec)
}

// editNamespaces makes the container join the note's namespaces and sets its ID mappings.
func editNamespaces(spec object, note Note) error {
	linux, err := spec.child("linux")
	if err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(note.Namespaces)) {
		if err := linux.replace("namespaces", "type", object{"type": kind, "path": note.Namespaces[kind]}); err != nil {
			return err
		}
	}
	if err := setMappings(linux, "uidMappings", note.UIDMappings); err != nil {
		return err
	}
	return setMappings(linux, "gidMappings", note.GIDMappings)
}

func setMappings(linux object, field string, mappings []IDMapping) error {
	if len(mappings) == 0 {
		return nil
	}
	objects, err := toObjects(mappings)
	if err != nil {
		return err
	}
	linux.setList(field, objects)
	return nil
}

// editIdentity sets the hostname, the annotations and the sysctls.
func editIdentity(spec object, note Note) error {
	if note.Hostname != "" {
		spec["hostname"] = note.Hostname
	}
	if err := spec.merge("annotations", note.Annotations); err != nil {
		return err
	}
	linux, err := spec.child("linux")
	if err != nil {
		return err
	}
	if note.DropSysctls {
		delete(linux, "sysctl")
	}
	return linux.merge("sysctl", note.Sysctls)
}

func editMounts(spec object, note Note) error {
	added, err := toObjects(note.Mounts)
	if err != nil {
		return err
	}
	if err := spec.replace("mounts", "destination", added...); err != nil {
		return err
	}
	mounts, err := spec.list("mounts")
	if err != nil {
		return err
	}
	for _, destination := range slices.Sorted(maps.Keys(note.MountOptions)) {
		i := slices.IndexFunc(mounts, func(m object) bool { return m["destination"] == destination })
		if i < 0 {
			return fmt.Errorf("no mount at %s, but the note has options for it", destination)
		}
		options, err := mounts[i].strings("options")
		if err != nil {
			return err
		}
		mounts[i].setStrings("options", append(options, note.MountOptions[destination]...))
	}
	return nil
}

// editContainerProcess edits the container's own process.
func editContainerProcess(spec object, note Note) error {
	process, err := spec.child("process")
	if err != nil {
		return err
	}
	return editProcess(process, note)
}

// editResources sets the limits of the container's cgroup.
func editResources(spec object, note Note) error {
	if len(note.Unified) == 0 && len(note.HugepageLimits) == 0 {
		return nil
	}
	resources, err := spec.child("linux", "resources")
	if err != nil {
		return err
	}
	for _, size := range slices.Sorted(maps.Keys(note.HugepageLimits)) {
		limit := object{"pageSize": size, "limit": note.HugepageLimits[size]}
		if err := resources.replace("hugepageLimits", "pageSize", limit); err != nil {
			return err
		}
	}
	return resources.merge("unified", note.Unified)
}
