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

// userPins names the pins of the user namespaces of pods with a sandbox container. A pod's other namespaces belong to
// its user namespace, which is therefore made and pinned first: before the sandbox container has an id.
type userPins struct{ opts *Options }

func (u userPins) dir() string { return filepath.Join(filepath.Dir(u.opts.podsDir), "users") }

// path is the pin of the pod with a sandbox name. Another criadapter may have a pod of the same name; its pins begin
// with another prefix.
func (u userPins) path(name string) string { return u.prefix() + digest(name) }

// prefix begins the paths of this criadapter's pins.
func (u userPins) prefix() string {
	return filepath.Join(u.dir(), digest(u.opts.RootDirectory)+"-")
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// setUsers puts the pod's user namespace into a set.
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
