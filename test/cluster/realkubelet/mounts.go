package realkubelet

import (
	"errors"
	"fmt"
	"syscall"
)

// CoverMachine mounts a tmpfs over /var/log and another one over /var/lib. A kubelet writes links in
// /var/log/containers and a socket in /var/lib/kubelet, and no setting changes these paths. The rig has its own mount
// namespace.
func CoverMachine() (uncover func() error, err error) {
	var covered []string
	uncover = func() error {
		var errs []error
		for _, dir := range covered {
			errs = append(errs, syscall.Unmount(dir, syscall.MNT_DETACH))
		}
		return errors.Join(errs...)
	}
	for _, dir := range []string{"/var/log", "/var/lib"} {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return nil, errors.Join(fmt.Errorf("mount over %s: %w", dir, err), uncover())
		}
		covered = append(covered, dir)
	}
	return uncover, nil
}
