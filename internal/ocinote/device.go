package ocinote

import (
	"fmt"
	"maps"
	"slices"
)

// editDevices adds the note's devices, lets the container's cgroup allow them, and sets the note's Intel RDT class.
func editDevices(spec object, note Note) error {
	linux, err := spec.child("linux")
	if err != nil {
		return err
	}
	if len(note.IntelRDT) > 0 {
		class, err := parse(note.IntelRDT) // an object, so that a plugin's patch merges into it
		if err != nil {
			return fmt.Errorf("intelRdt: %w", err)
		}
		linux["intelRdt"] = class
	}
	for _, device := range note.Devices {
		node, err := deviceNode(spec, device)
		if err != nil {
			return err
		}
		if err := linux.replace("devices", "path", node); err != nil {
			return err
		}
		if err := allowDevice(linux, device); err != nil {
			return err
		}
	}
	return nil
}

// deviceNode returns a device's OCI entry. If the note gives no owner, the container's user and group own the device.
func deviceNode(spec object, device Device) (object, error) {
	user, err := spec.child("process", "user")
	if err != nil {
		return nil, err
	}
	node := object{"path": device.Path, "type": device.Type, "major": device.Major, "minor": device.Minor}
	if device.FileMode != nil {
		node["fileMode"] = *device.FileMode
	}
	for field, id := range map[string]*uint32{"uid": device.UID, "gid": device.GID} {
		switch {
		case id != nil:
			node[field] = *id
		case user[field] != nil:
			node[field] = user[field]
		}
	}
	return node, nil
}

func allowDevice(linux object, device Device) error {
	if device.Access == "" {
		return nil
	}
	resources, err := linux.child("resources")
	if err != nil {
		return err
	}
	allowed, err := resources.list("devices")
	if err != nil {
		return err
	}
	resources.setList("devices", append(allowed, object{
		"allow": true, "type": device.Type, "major": device.Major, "minor": device.Minor, "access": device.Access,
	}))
	return nil
}

// editHooks appends the note's hooks to the configuration's own.
func editHooks(spec object, note Note) error {
	for _, when := range slices.Sorted(maps.Keys(note.Hooks)) {
		hooks, err := spec.child("hooks")
		if err != nil {
			return err
		}
		list, err := hooks.list(when)
		if err != nil {
			return err
		}
		added, err := toObjects(note.Hooks[when])
		if err != nil {
			return err
		}
		hooks.setList(when, append(list, added...))
	}
	return nil
}
