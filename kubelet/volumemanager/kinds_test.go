package volumemanager

import (
	"testing"

	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// TestEveryKindIsMounted finds a mount for each kind of volume that is no directory of files, and no other mounts.
func TestEveryKindIsMounted(t *testing.T) {
	for _, kind := range volumekinds.Kinds() {
		if _, mounted := mounts[kind.Field]; mounted == (kind.Files != nil) {
			t.Errorf("%s has a mount: %v, and files: %v; it needs one of them", kind.Field, mounted, kind.Files != nil)
		}
	}
	for field := range mounts {
		if _, ok := volumekinds.Lookup(field); !ok {
			t.Errorf("%s is mounted, and is no kind of volume", field)
		}
	}
}
