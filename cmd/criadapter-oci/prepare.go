package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// prepare edits the files that the real runtime will read. It refuses an unknown verb: the word may be the value of an
// unknown flag, and the verb after it may be create.
func prepare(c *call) error {
	switch {
	case c.makes():
		return prepareContainer(c)
	case c.verb == "exec":
		return prepareCommand(c)
	case c.verb == "", slices.Contains(passed, c.verb): // without a verb there are flags alone, such as --version
		return nil
	default:
		return fmt.Errorf(
			"%q is not a known command of OCI runtimes; it may be the value of an unknown option; nothing was done",
			c.verb)
	}
}

// prepareContainer edits the bundle of a container that is about to be made.
func prepareContainer(c *call) error {
	note, err := c.note()
	if err != nil {
		return err
	}
	if note.Plugins != nil {
		c.ociVersion = note.Plugins.OCIVersion
	}
	if c.bundle == "" {
		c.bundle = "." // as runc's --bundle
	}
	path := filepath.Join(c.bundle, "config.json")
	config, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := c.findGroups(&note, config); err != nil {
		return err
	}
	if usesSlices(config) && !c.systemd {
		// The engine passes --systemd-cgroup only to runtimes that it knows. Without the flag, the limits of the pod
		// would not reach the container.
		c.args = append([]string{"--systemd-cgroup"}, c.args...)
	}
	return rewrite(path, config, note, func(config []byte, note ocinote.Note) ([]byte, error) {
		config, err := ocinote.EditSpec(config, note)
		if err != nil || note.UserNamespace() == "" {
			return config, err
		}
		if err := giveStreams(note); err != nil {
			return nil, err
		}
		note.MappedMounts = withoutPluginMounts(note)
		return mapFiles(config, c.bundle, note)
	})
}

// withoutPluginMounts returns the note's MappedMounts without the mounts that NRI plugins have removed or replaced.
func withoutPluginMounts(note ocinote.Note) []string {
	if note.Plugins == nil {
		return note.MappedMounts
	}
	return slices.DeleteFunc(slices.Clone(note.MappedMounts), func(target string) bool {
		return slices.Contains(note.Plugins.RemoveMounts, target) ||
			slices.ContainsFunc(note.Plugins.Mounts, func(m ocinote.Mount) bool { return m.Destination == target })
	})
}

// prepareCommand edits the process of a command in a container.
func prepareCommand(c *call) error {
	note, err := c.note()
	if err != nil || c.process == "" {
		return err
	}
	process, err := os.ReadFile(c.process)
	if err != nil {
		return err
	}
	if note.UserNamespace() != "" {
		if err := giveStreams(note); err != nil {
			return err
		}
	}
	return rewrite(c.process, process, note, ocinote.EditProcess)
}

// note loads the container's note. Its error explains why a note may be missing.
func (c *call) note() (ocinote.Note, error) {
	note, err := c.notes.Load(c.container)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf(
			"container %.12s has no note of criadapter in %s: this criadapter did not create it, or the machine was "+
				"restarted since; the kubelet recreates its pods, other clients should use another runtime",
			c.container, c.notes)
	}
	return note, err
}

// rewrite edits a file, whole or not at all.
func rewrite(path string, text []byte, note ocinote.Note, edit func([]byte, ocinote.Note) ([]byte, error)) error {
	edited, err := edit(text, note)
	if err != nil {
		return err
	}
	stat, err := os.Stat(path)
	if err != nil {
		return err
	}
	// A command's process file may be in a directory in which every user may make files.
	unfinished, err := os.CreateTemp(filepath.Dir(path), ".criadapter-*")
	if err != nil {
		return err
	}
	_, err = unfinished.Write(edited)
	if err = errors.Join(err, unfinished.Chmod(stat.Mode().Perm()), unfinished.Close()); err == nil {
		err = os.Rename(unfinished.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(unfinished.Name()))
	}
	return nil
}

// usesSlices reports whether a configuration names its cgroup as systemd does:
// slice:prefix:name.
func usesSlices(config []byte) bool {
	var spec struct {
		Linux struct {
			CgroupsPath string `json:"cgroupsPath"`
		} `json:"linux"`
	}
	if json.Unmarshal(config, &spec) != nil {
		return false
	}
	slice, _, found := strings.Cut(spec.Linux.CgroupsPath, ":")
	return found && !strings.Contains(slice, "/")
}
