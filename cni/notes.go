package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	"github.com/containernetworking/cni/libcni"

	"github.com/criadapter/criadapter/internal/step"
)

// notes are the records of attachments whose ADD has begun and whose result is not in libcni's cache yet: one file per
// pod. Together with the cache they name everything that plugins may hold for us.
//
// They are not synced to the disk: they are there for a crash of this process. After a crash of the machine the
// namespaces are gone, and Del falls back to the configuration of the pod's network name.
type notes struct {
	dir string
}

// begin notes that plugins are about to run. It fails with errdefs.ErrAlreadyExists when the pod has a note.
func (n notes) begin(list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) error {
	defer step.At("CNI: begin note")()
	content, err := json.Marshal(libcni.NetworkAttachment{
		ContainerID:    rt.ContainerID,
		Network:        list.Name,
		IfName:         rt.IfName,
		Config:         list.Bytes,
		NetNS:          rt.NetNS,
		CniArgs:        rt.Args,
		CapabilityArgs: rt.CapabilityArgs,
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(n.path(rt.ContainerID), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("an earlier ADD for pod %s is not undone, delete it first: %w", rt.ContainerID, errdefs.ErrAlreadyExists)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, n.end(rt.ContainerID))
	}
	return nil
}

// end removes the pod's note. No note is fine.
func (n notes) end(id string) error {
	defer step.At("CNI: end note")()
	err := os.Remove(n.path(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// get returns the pod's note, nil when there is none or when it was cut short
// by a crash. A note that is cut short was written before any plugin ran.
func (n notes) get(id string) (*libcni.NetworkAttachment, error) {
	content, err := os.ReadFile(n.path(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var noted libcni.NetworkAttachment
	if json.Unmarshal(content, &noted) != nil || noted.ContainerID != id || noted.Network == "" || noted.IfName == "" {
		return nil, nil
	}
	return &noted, nil
}

// all returns the notes of all pods.
func (n notes) all() ([]*libcni.NetworkAttachment, error) {
	entries, err := os.ReadDir(n.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var all []*libcni.NetworkAttachment
	for _, entry := range entries {
		noted, err := n.get(entry.Name())
		if err != nil {
			return nil, err
		}
		if noted != nil {
			all = append(all, noted)
		}
	}
	return all, nil
}

func (n notes) path(id string) string { return filepath.Join(n.dir, id) }
