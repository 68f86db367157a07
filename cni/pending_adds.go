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

// pendingAdds records ADDs that have begun but have no result in libcni's cache yet, in one file per pod. The files and
// the cache list everything that plugins may hold for our pods.
//
// The files are not synced to the disk, since they only have to survive a crash of this process. After a crash of the
// machine the namespaces are gone, and Del falls back to the configuration of the pod's network name.
type pendingAdds struct {
	dir string
}

// begin records that plugins are about to run. It fails with errdefs.ErrAlreadyExists when the pod has a pending ADD.
func (p pendingAdds) begin(list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) error {
	defer step.At("CNI: begin pending ADD")()
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
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(p.path(rt.ContainerID), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("an earlier ADD for pod %s is not undone, delete it first: %w", rt.ContainerID,
			errdefs.ErrAlreadyExists)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, p.end(rt.ContainerID))
	}
	return nil
}

// end removes the pod's pending ADD, if there is one.
func (p pendingAdds) end(id string) error {
	defer step.At("CNI: end pending ADD")()
	err := os.Remove(p.path(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// get returns the pod's pending ADD. The result is nil if there is none. It is also nil if a crash has truncated the
// file: then no plugin has run.
func (p pendingAdds) get(id string) (*libcni.NetworkAttachment, error) {
	content, err := os.ReadFile(p.path(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var add libcni.NetworkAttachment
	if json.Unmarshal(content, &add) != nil || add.ContainerID != id || add.Network == "" || add.IfName == "" {
		return nil, nil
	}
	return &add, nil
}

// all returns the pending ADDs of all pods.
func (p pendingAdds) all() ([]*libcni.NetworkAttachment, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var all []*libcni.NetworkAttachment
	for _, entry := range entries {
		add, err := p.get(entry.Name())
		if err != nil {
			return nil, err
		}
		if add != nil {
			all = append(all, add)
		}
	}
	return all, nil
}

func (p pendingAdds) path(id string) string { return filepath.Join(p.dir, id) }
