package cni

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/utils"
	"github.com/containernetworking/cni/pkg/version"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/bounded"
)

// maxConfSize bounds a configuration file, in bytes.
const maxConfSize = 1 << 20

// snapshot is one reading of the configuration directory. It is immutable.
type snapshot struct {
	// file and list are the first valid configuration, empty and nil when there is none.
	file string
	list *libcni.NetworkConfigList
	// byName holds the first valid configuration for each network name.
	byName map[string]*libcni.NetworkConfigList
	// skipped are the invalid files, in lexical order.
	skipped []SkippedFile
	// err says why the directory could not be read. A missing directory is not an error.
	err error
}

// loadDir reads every configuration in dir. Only loadDir decides which one is used: the first valid file in the lexical
// order of file names.
func loadDir(dir string) *snapshot {
	snap := &snapshot{byName: map[string]*libcni.NetworkConfigList{}}
	files, err := libcni.ConfFiles(dir, []string{".conf", ".conflist", ".json"})
	if err != nil {
		snap.err = err
		return snap
	}
	slices.Sort(files)
	for _, file := range files {
		list, err := loadFile(file)
		if err != nil {
			snap.skipped = append(snap.skipped, SkippedFile{File: file, Reason: err.Error()})
			continue
		}
		if snap.list == nil {
			snap.file, snap.list = file, list
		}
		if _, ok := snap.byName[list.Name]; !ok {
			snap.byName[list.Name] = list
		}
	}
	return snap
}

// sameAs reports whether two readings are equal. If they are, cached STATUS answers stay valid.
func (s *snapshot) sameAs(other *snapshot) bool {
	if other == nil || s.file != other.file || (s.list == nil) != (other.list == nil) ||
		len(s.byName) != len(other.byName) || !slices.Equal(s.skipped, other.skipped) ||
		(s.err == nil) != (other.err == nil) || (s.err != nil && s.err.Error() != other.err.Error()) {
		return false
	}
	for name, list := range s.byName {
		if o, ok := other.byName[name]; !ok || !bytes.Equal(list.Bytes, o.Bytes) {
			return false
		}
	}
	return s.list == nil || bytes.Equal(s.list.Bytes, other.list.Bytes)
}

func loadFile(file string) (*libcni.NetworkConfigList, error) {
	content, err := readRegular(file)
	if err != nil {
		return nil, err
	}
	if filepath.Ext(file) == ".conflist" {
		return parseList(content, filepath.Dir(file))
	}
	return parseSingle(content)
}

// parseList reads a .conflist. Since version 1.1.0 of the specification, plugins may also be in a directory beside the
// file. The directory has the network's name.
func parseList(content []byte, dir string) (*libcni.NetworkConfigList, error) {
	list, err := libcni.NetworkConfFromBytes(content)
	if err != nil {
		return nil, err
	}
	// The name becomes part of a path below.
	if err := utils.ValidateNetworkName(list.Name); err != nil {
		return nil, err
	}
	if !list.LoadOnlyInlinedPlugins {
		if list, err = withDirPlugins(list, filepath.Join(dir, list.Name)); err != nil {
			return nil, err
		}
	}
	return list, validateList(list)
}

// parseSingle reads a .conf or .json, which holds one plugin, as a list of one.
func parseSingle(content []byte) (*libcni.NetworkConfigList, error) {
	plugin, err := libcni.NetworkPluginConfFromBytes(content)
	if err != nil {
		return nil, err
	}
	list, err := asList(&libcni.NetworkConfigList{
		Name:       plugin.Network.Name,
		CNIVersion: plugin.Network.CNIVersion,
		Plugins:    []*libcni.PluginConfig{plugin},
	})
	if err != nil {
		return nil, err
	}
	return list, validateList(list)
}

// withDirPlugins appends the plugins in dir. The result has them inline, because libcni caches the text of a list and
// DEL must find all plugins in it.
func withDirPlugins(list *libcni.NetworkConfigList, dir string) (*libcni.NetworkConfigList, error) {
	files, err := libcni.ConfFiles(dir, []string{".conf"})
	if err != nil || len(files) == 0 {
		return list, err
	}
	slices.Sort(files)
	for _, file := range files {
		content, err := readRegular(file)
		if err != nil {
			return nil, err
		}
		plugin, err := libcni.NetworkPluginConfFromBytes(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		list.Plugins = append(list.Plugins, plugin)
	}
	return asList(list)
}

// asList writes a list out with its plugins inline and parses it again, so that its text and its fields agree.
func asList(list *libcni.NetworkConfigList) (*libcni.NetworkConfigList, error) {
	plugins := make([]json.RawMessage, 0, len(list.Plugins))
	for _, p := range list.Plugins {
		plugins = append(plugins, p.Bytes)
	}
	content, err := json.Marshal(map[string]any{
		"name":                   list.Name,
		"cniVersion":             list.CNIVersion,
		"disableCheck":           list.DisableCheck,
		"disableGC":              list.DisableGC,
		"loadOnlyInlinedPlugins": true,
		"plugins":                plugins,
	})
	if err != nil {
		return nil, err
	}
	return libcni.NetworkConfFromBytes(content)
}

func validateList(list *libcni.NetworkConfigList) error {
	if err := utils.ValidateNetworkName(list.Name); err != nil {
		return err
	}
	known := version.All.SupportedVersions()
	if list.CNIVersion != "" && !slices.Contains(known, list.CNIVersion) {
		return fmt.Errorf("cniVersion %q is none of %s", list.CNIVersion, strings.Join(known, ", "))
	}
	if len(list.Plugins) == 0 {
		return errors.New("no plugins")
	}
	for _, p := range list.Plugins {
		if strings.ContainsRune(p.Network.Type, os.PathSeparator) {
			return fmt.Errorf("plugin type %q must be a file name", p.Network.Type)
		}
	}
	return nil
}

// readRegular reads a regular file. It never blocks, as opening a named pipe would.
func readRegular(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", file)
	}
	return bounded.ReadAll(f, file, maxConfSize)
}
