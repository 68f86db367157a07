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

// loopbackNetwork is what dockershim and cri-dockerd call the network whose only plugin sets lo up.
const loopbackNetwork = "cni-loopback"

// maxCached is what a cache entry may have in bytes; they have a few kilobytes.
const maxCached = 1 << 20

// Attachment is what libcni has cached of a pod that another runtime has joined to a network.
type Attachment struct {
	// Network is the name of the configuration list that was used.
	Network string
	// IPs are the pod's addresses, the primary one first, empty where the result cannot be read.
	IPs []string
	// Raw is the result as JSON, nil where it cannot be read.
	Raw json.RawMessage

	// path is the entry's file and content what is in it.
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

// FindAttachment looks a pod up in the cache directories of other runtimes, the first that has it wins. It returns nil
// for a pod that none has. An entry that cannot be read is passed over, like one of a network that only sets lo up.
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

// ForgetAttachments removes what cache directories of other runtimes hold of a pod. No directory is fine.
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

// CopyTo copies the attachment into another cache directory, with another path of the pod's namespace. A [Network] of
// that directory takes the pod off with the original configuration. The entry replaces an earlier one. Where an
// attachment is copied into its own directory, its loopback entries are removed.
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

// entriesOf lists the files of a cache directory that may be of a pod.
func entriesOf(dir, id string) ([]string, error) {
	results := filepath.Join(dir, "results")
	entries, err := os.ReadDir(results)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
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

// readAttachment returns nil for what is no entry of the pod.
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
