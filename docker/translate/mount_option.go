package translate

import (
	"slices"
	"strings"
)

// offeredMountOptions are the mount options that only restrict a mount, or concern access times. The others are CRI's
// own fields (ro, rro, rslave), or would undo mount options of the node's administrator.
var offeredMountOptions = []string{"nodev", "noexec", "nosuid", "noatime", "nodiratime", "relatime", "strictatime"}

// mountOptions implements the CRI text on mount_options: the OCI runtime applies them to the topmost mount.
func mountOptions(field string, options []string, target string, more *extra) error {
	for i, option := range options {
		if !slices.Contains(offeredMountOptions, option) {
			return invalid(item(field, i), "%q is not among %s", option, strings.Join(offeredMountOptions, ", "))
		}
		if err := more.mountOptions(field, target, option); err != nil {
			return err
		}
	}
	return nil
}
