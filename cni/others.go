package cni

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types/create"
	"github.com/google/renameio/v2"
)

// loopbackNetwork is the name that dockershim and cri-dockerd give to the network whose only plugin sets lo up.
const loopbackNetwork = "cni-loopback"

// maxCached is the size of the largest cache entry that is read, in bytes. Usual entries have a few kilobytes.
const maxCached = 1 << 20

// Attachment is libcni's cache entry of a pod that another runtime has joined to a network.
type Attachment struct {
	// Network is the name of the configuration list that was used.
	Network string
	// IPs are the pod's addresses, the primary one first. They are empty if the result cannot be read.
	IPs []string
	// Raw is the result as JSON, nil if it cannot be read.
	Raw json.RawMessage

	// path is the entry's file, with its content.
	path    string
	content []byte
}

// cacheEntry is the part of a cache entry (libcni's cniCacheV1) that is read here.
type cacheEntry struct {
	Kind        string          `json:"kind"`
	ContainerID string          `json:"containerId"`
	Network     string          `json:"networkName"`
	Config      []byte          `json:"config"`
	Result      json.RawMessage `json:"result"`
}

// FindAttachment looks a pod up in the cache directories of other runtimes. The first directory that has it wins. It
// returns nil if none has it. It skips entries that cannot be read, and entries of a network that only sets lo up.
func FindAttachment(dirs []string, id string) (*Attachment, error) {
	for _, dir := range dirs {
		paths, err := entriesOf(dir, id)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if a := readAttachment(path, id); a != nil && a.Network != loopbackNetwork {
				return a, nil
			}
		}
	}
	return nil, nil
}

// ForgetAttachments removes a pod's entries from cache directories. A directory need not exist.
func ForgetAttachments(dirs []string, id string) error {
	var errs []error
	for _, dir := range dirs {
		paths, err := entriesOf(dir, id)
		errs = append(errs, err)
		for _, path := range paths {
			if !belongsToOther(path, id) {
				errs = append(errs, os.Remove(path))
			}
		}
	}
	return errors.Join(errs...)
}

// CopyTo copies the attachment into another cache directory, with another path of the pod's namespace. DEL of a
// [Network] with that directory then uses the original configuration. The entry replaces an earlier one. If the
// attachment is already in that directory, CopyTo also removes the pod's entry of the loopback network.
func (a *Attachment) CopyTo(dir, netnsPath string) error {
	var entry map[string]json.RawMessage
	if err := json.Unmarshal(a.content, &entry); err != nil {
		return fmt.Errorf("CNI cache entry %s: %w", a.path, err)
	}
	netns, err := json.Marshal(netnsPath)
	if err != nil {
		return err
	}
	entry["netns"] = netns
	content, err := json.Marshal(entry)
	if err != nil {
		return fmt.Errorf("CNI cache entry %s: %w", a.path, err)
	}
	target := filepath.Join(dir, "results", filepath.Base(a.path))
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return fmt.Errorf("copying CNI cache entry %s: %w", a.path, err)
	}
	if err := renameio.WriteFile(target, content, 0o600, renameio.WithTempDir(dir)); err != nil {
		return fmt.Errorf("copying CNI cache entry %s: %w", a.path, err)
	}
	if filepath.Clean(target) != filepath.Clean(a.path) {
		return nil
	}
	loopback := filepath.Join(dir, "results", loopbackNetwork+strings.TrimPrefix(filepath.Base(a.path), a.Network))
	if err := os.Remove(loopback); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing CNI cache entry: %w", err)
	}
	return nil
}

// entriesOf lists the files of a cache directory whose names fit a pod.
func entriesOf(dir, id string) ([]string, error) {
	results := filepath.Join(dir, "results")
	entries, err := os.ReadDir(results)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the CNI cache: %w", err)
	}
	var paths []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), "-"+id+"-"+interfaceName) && entry.Type().IsRegular() {
			paths = append(paths, filepath.Join(results, entry.Name()))
		}
	}
	return paths, nil
}

// readAttachment returns nil for a file that is not an entry of the pod.
func readAttachment(path, id string) *Attachment {
	info, err := os.Lstat(path)
	if err != nil || info.Size() > maxCached {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return parseAttachment(path, id, content)
}

func parseAttachment(path, id string, content []byte) *Attachment {
	var entry cacheEntry
	if json.Unmarshal(content, &entry) != nil || entry.Kind != libcni.CNICacheV1 || entry.ContainerID != id ||
		entry.Network == "" || len(entry.Config) == 0 {
		return nil
	}
	a := &Attachment{Network: entry.Network, path: path, content: content}
	result, err := create.CreateFromBytes(bytes.Clone(entry.Result))
	if err != nil {
		return a
	}
	if current, err := newResult(entry.Network, result); err == nil {
		a.IPs, a.Raw = current.IPs, current.Raw
	}
	return a
}
