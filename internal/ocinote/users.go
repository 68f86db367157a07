package ocinote

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// UserNamespace is the path of the user namespace that the container joins, empty for
// the node's.
func (n Note) UserNamespace() string { return n.Namespaces["user"] }

// HostRoot returns the node's user and group id to which the note maps the container's root.
func (n Note) HostRoot() (uid, gid int, err error) {
	uid, uidFound := hostID(n.UIDMappings)
	gid, gidFound := hostID(n.GIDMappings)
	if !uidFound || !gidFound {
		return 0, 0, errors.New("the note does not map root")
	}
	return uid, gid, nil
}

// hostID returns the node's id to which id 0 is mapped, and false if it is not mapped.
func hostID(mappings []IDMapping) (int, bool) {
	for _, mapping := range mappings {
		if mapping.ContainerID == 0 && mapping.Size > 0 {
			return int(mapping.HostID), true
		}
	}
	return 0, false
}

// Files are the node's files that a container sees.
type Files struct {
	// Root is the directory of the container's root file system.
	Root string
	// Mounts are the sources of its bind mounts, by their destinations.
	Mounts map[string]string
	// ReadOnly says which of its bind mounts are read-only, by their destinations.
	ReadOnly map[string]bool
}

// FilesOf returns the root and the note's MappedMounts of the OCI configuration in the directory bundle. It fails for a
// mapped mount that is missing or is not a bind mount. It also fails for a mount with shared propagation, because the
// node would get the container's mounts.
func FilesOf(config []byte, bundle string, note Note) (Files, error) {
	spec, err := parse(config)
	if err != nil {
		return Files{}, fmt.Errorf("OCI configuration: %w", err)
	}
	root, err := spec.child("root")
	if err != nil {
		return Files{}, fmt.Errorf("OCI configuration: %w", err)
	}
	path, _ := root["path"].(string)
	if path == "" {
		return Files{}, errors.New("OCI configuration: root has no path")
	}
	files := Files{Root: Under(bundle, path), Mounts: map[string]string{}, ReadOnly: map[string]bool{}}
	for _, destination := range note.MappedMounts {
		mount, err := mountAt(spec, destination)
		if err != nil {
			return Files{}, fmt.Errorf("OCI configuration: %w", err)
		}
		source, readOnly, err := bindSource(mount)
		if err != nil {
			return Files{}, fmt.Errorf("OCI configuration: the mount at %s %w", destination, err)
		}
		files.ReadOnly[destination] = readOnly
		files.Mounts[destination] = Under(bundle, source)
	}
	return files, nil
}

// Under returns path, joined to dir if it is relative.
func Under(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// bindSource returns the source of a bind mount, and whether the mount is read-only.
func bindSource(mount object) (source string, readOnly bool, err error) {
	options, err := mount.strings("options")
	if err != nil {
		return "", false, err
	}
	has := func(option string) bool { return slices.Contains(options, option) }
	source, _ = mount["source"].(string)
	switch {
	case source == "" || mount["type"] != "bind" && !has("bind") && !has("rbind"):
		return "", false, errors.New("is not a bind mount: its owners cannot be mapped")
	case has("shared") || has("rshared"):
		return "", false, errors.New("is Bidirectional, which a pod with a user namespace cannot have")
	}
	return source, has("ro") || has("rro"), nil
}

// mountAt returns the mount at a destination.
func mountAt(spec object, destination string) (object, error) {
	mounts, err := spec.list("mounts")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(mounts, func(m object) bool { return m["destination"] == destination })
	if i < 0 {
		return nil, fmt.Errorf("no mount at %s, but the note maps its owners", destination)
	}
	return mounts[i], nil
}

// MoveFiles returns the OCI configuration with the root and the mount sources replaced by files.
func MoveFiles(config []byte, files Files) ([]byte, error) {
	spec, err := parse(config)
	if err != nil {
		return nil, fmt.Errorf("OCI configuration: %w", err)
	}
	root, err := spec.child("root")
	if err != nil {
		return nil, fmt.Errorf("OCI configuration: %w", err)
	}
	root["path"] = files.Root
	for destination, source := range files.Mounts {
		mount, err := mountAt(spec, destination)
		if err != nil {
			return nil, fmt.Errorf("OCI configuration: %w", err)
		}
		mount["source"] = source
	}
	return json.Marshal(spec)
}
