package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/userns"
)

// userPins has the paths at which user namespaces are pinned, for pods with a sandbox container. A pod's user namespace
// owns its other namespaces. It is therefore made and pinned before the sandbox container has an id.
type userPins struct{ opts *Options }

func (u userPins) dir() string { return filepath.Join(filepath.Dir(u.opts.podsDir), "users") }

// path is the pin of the pod with this sandbox name. Another criadapter may have a pod of the same name. Its pins have
// another prefix.
func (u userPins) path(name string) string { return u.prefix() + digest(name) }

// prefix is the beginning of each path of this criadapter's pins.
func (u userPins) prefix() string {
	return filepath.Join(u.dir(), digest(u.opts.RootDirectory)+"-")
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// setUsers sets the id mappings of the pod's user namespace. It does nothing for a pod without one.
func setUsers(set *netns.Set, users *translate.Users) {
	if users == nil {
		return
	}
	set.UIDs = []userns.Mapping{{HostID: int(users.UIDs.HostID), Size: int(users.UIDs.Size)}}
	set.GIDs = []userns.Mapping{{HostID: int(users.GIDs.HostID), Size: int(users.GIDs.Size)}}
}

// unpinUsers unpins the user namespace of a pod, if the pod has one.
func unpinUsers(record checkpoint.Record) error {
	if record.UserNamespace == "" {
		return nil
	}
	return netns.Set{User: record.UserNamespace}.Unpin()
}
