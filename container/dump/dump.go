// Package dump reads and writes the checkpoint of one container. containerd, CRI-O and Podman share the format, and
// checkpointctl shows it.
//
//	checkpoint/      CRIU's images of the processes
//	rootfs-diff.tar  the files that the container has changed
//	deleted.files    the files of its image that it has deleted, a JSON list
//	volumes/         the files of each volume that its image declares, which only criadapter reads
//	config.dump      its ids, names, image, runtime and times, see Config
//	spec.dump        its OCI specification
//	status.dump      its CRI status
//	cri.dump         its CRI configuration, which only criadapter reads
package dump

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/errdefs"
)

// Names in the directory of a container's checkpoint.
const (
	// Processes is the directory that CRIU writes.
	Processes = "checkpoint"
	// Files is the archive of changed files.
	Files = "rootfs-diff.tar"

	deletedFile = "deleted.files"
	configFile  = "config.dump"
	specFile    = "spec.dump"
	statusFile  = "status.dump"
	criFile     = "cri.dump"
)

// Volume is the archive of a volume, in the directory of a container's checkpoint. target is the volume's absolute path
// in the container.
func Volume(target string) string { return filepath.Join("volumes", url.PathEscape(target)+".tar") }

// fileMode lets only root read the memory of processes and their environments.
const fileMode = 0o600

// Config is config.dump.
type Config struct {
	// ID and Name are the engine's.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Image is the image's name in the user's request. ImageRef is its id or digest.
	Image    string `json:"rootfsImage,omitempty"`
	ImageRef string `json:"rootfsImageRef,omitempty"`
	// ImageName repeats Image, for programs that read this field.
	ImageName      string    `json:"rootfsImageName,omitempty"`
	Runtime        string    `json:"runtime,omitempty"`
	CreatedTime    time.Time `json:"createdTime"`
	CheckpointedAt time.Time `json:"checkpointedTime"`
}

// Container is the description of a container in the files, without its processes and changed files.
type Container struct {
	Config  Config
	Deleted []string
	// Spec is the OCI specification and Status the CRI status, as JSON. CRI is the CRI configuration as protobuf JSON.
	Spec, Status, CRI json.RawMessage
}

// Write writes the description of a container into a directory.
func (c Container) Write(dir string) error {
	config, err := json.MarshalIndent(c.Config, "", "  ")
	if err != nil {
		return err
	}
	deleted, err := json.Marshal(c.Deleted)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		configFile: config, specFile: c.Spec, statusFile: c.Status, criFile: c.CRI, deletedFile: deleted,
	} {
		if name == deletedFile && len(c.Deleted) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, fileMode); err != nil {
			return err
		}
	}
	return nil
}

// Read reads the description of a container. It returns errdefs.ErrInvalidArgument for a directory that is not a
// checkpoint of criadapter, and for a checkpoint with anything but directories and regular files.
func Read(dir string) (Container, error) {
	var c Container
	if err := checkPlain(dir); err != nil {
		return Container{}, fmt.Errorf("%s is not a checkpoint of a container: %w: %w", dir, err,
			errdefs.ErrInvalidArgument)
	}
	for name, into := range map[string]any{
		configFile: &c.Config, specFile: &c.Spec, statusFile: &c.Status, criFile: &c.CRI, deletedFile: &c.Deleted,
	} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) && name == deletedFile {
			continue
		}
		if err == nil {
			err = json.Unmarshal(content, into)
		}
		if err != nil {
			return Container{}, fmt.Errorf("%s is not a checkpoint of a container: %s: %w: %w", dir, name, err,
				errdefs.ErrInvalidArgument)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, Processes)); err != nil || !info.IsDir() {
		return Container{}, fmt.Errorf("%s is not a checkpoint of a container: it has no directory %s: %w", dir,
			Processes, errdefs.ErrInvalidArgument)
	}
	return c, nil
}

// checkPlain refuses links, pipes and devices in a directory. A restore opens the files as root: a link would put a
// file of the node into the container, and a pipe would block.
func checkPlain(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !entry.Type().IsRegular() {
			err = fmt.Errorf("%s is neither a directory nor a plain file", path)
		}
		return err
	})
}
