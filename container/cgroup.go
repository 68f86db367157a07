package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/state"
)

// Cgroups finds the cgroups of containers; *stats.Collector does.
type Cgroups interface {
	// Folder returns the folder of a container's cgroup with the files of a
	// controller, and whether it is of version 2. It fails with ErrNotFound when
	// the process is gone or no such cgroup can be seen.
	Folder(containerID string, pid int, controller string) (dir string, unified bool, err error)
}

// limit puts those limits of a running container into force for which the Docker
// API has no field. After an error none of them has changed; undo brings back
// what was there before. field is where the limits are in the request.
func (s *Service) limit(c *state.Container, field string, wanted *runtimeapi.LinuxContainerResources) (undo func(), err error) {
	undo = func() {}
	if s.opts.Cgroups == nil || !c.Status.Running || len(wanted.GetHugepageLimits())+len(wanted.GetUnified()) == 0 {
		return undo, nil
	}
	dir, unified, err := s.opts.Cgroups.Folder(c.ID, c.Status.PID, translate.HugetlbController)
	if errdefs.IsNotFound(err) {
		// It has ended, or this kernel has no such limits.
		logrus.WithError(err).WithField("container", c.ID).Debug("limits of huge pages and of cgroup files are not in force")
		return undo, nil
	}
	if err != nil {
		return undo, err
	}
	var before []cgroupValue
	undo = func() {
		for _, value := range before {
			if err := value.write(); err != nil {
				logrus.WithError(err).WithField("container", c.ID).Warn("cannot bring back a limit")
			}
		}
	}
	for _, file := range translate.CgroupFiles(wanted, unified) {
		old, err := setCgroupFile(filepath.Join(dir, file.Name), file)
		if err != nil {
			undo()
			return func() {}, fmt.Errorf("%s.%s: %w", field, file.Field, err)
		}
		if old != nil {
			before = append([]cgroupValue{*old}, before...)
		}
	}
	return undo, nil
}

// cgroupValue is what a cgroup file holds.
type cgroupValue struct{ path, value string }

func (v cgroupValue) write() error {
	file, err := os.OpenFile(v.path, os.O_WRONLY|os.O_TRUNC, 0) // never made: only the kernel makes files there
	if err != nil {
		return err
	}
	_, err = file.WriteString(v.value)
	return errors.Join(err, file.Close())
}

// setCgroupFile writes one file and returns what it held before, nil when it was
// passed over or the cgroup is gone with its container.
func setCgroupFile(path string, file translate.CgroupFile) (before *cgroupValue, err error) {
	old, err := os.ReadFile(path)
	if err == nil {
		err = cgroupValue{path, file.Value}.write()
	}
	switch {
	case err == nil:
		return &cgroupValue{path, string(old)}, nil
	case errors.Is(err, fs.ErrNotExist) && (file.Optional || gone(filepath.Dir(path))), errors.Is(err, unix.ENODEV):
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("this kernel has no such cgroup file: %w: %w", err, errdefs.ErrInvalidArgument)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ERANGE):
		return nil, fmt.Errorf("the kernel refuses %q: %w: %w", file.Value, err, errdefs.ErrInvalidArgument)
	default:
		return nil, err
	}
}

func gone(dir string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}
