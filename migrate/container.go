package migrate

import (
	"fmt"
	"path"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/logs"
)

// containerConfig rebuilds a container's configuration for the status: labels and annotations from its labels, the rest
// from the engine. It has no resources, because the status shows the present ones.
func containerConfig(inspect *container.InspectResponse) (*runtimeapi.ContainerConfig, error) {
	config, _, err := translate.ContainerConfig(inspect.Config.Labels, inspect.Name)
	if err != nil {
		return nil, err
	}
	config.Image = &runtimeapi.ImageSpec{Image: inspect.Config.Image}
	config.Stdin, config.StdinOnce, config.Tty = inspect.Config.OpenStdin, inspect.Config.StdinOnce, inspect.Config.Tty
	logPath := translate.LogPath(inspect.Config.Labels)
	if dir := logDirectory(config.GetMetadata().GetName(), logPath); dir != "" {
		config.LogPath = strings.TrimPrefix(logPath, dir+"/")
	}
	for _, m := range inspect.Mounts {
		if m.Type != mount.TypeBind {
			continue // a volume of the image
		}
		config.Mounts = append(config.Mounts, &runtimeapi.Mount{
			ContainerPath: m.Destination, HostPath: m.Source, Readonly: !m.RW, Propagation: propagation(m.Propagation),
		})
	}
	return config, nil
}

func propagation(p mount.Propagation) runtimeapi.MountPropagation {
	switch p {
	case mount.PropagationShared, mount.PropagationRShared:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	case mount.PropagationSlave, mount.PropagationRSlave:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	default:
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
	}
}

// logDirectory is the pod's log directory, derived from the log of a container: a kubelet's logs are CONTAINER/N.log
// below it, other clients' logs are in it. It is empty for a container without a log.
func logDirectory(containerName, logPath string) string {
	dir := path.Dir(logPath)
	switch {
	case !path.IsAbs(logPath):
		return ""
	case path.Base(dir) == containerName:
		return path.Dir(dir)
	default:
		return dir
	}
}

// continued returns the log to continue, nil for none. linked says that the container's log is a link to the engine's
// file.
func continued(inspect *container.InspectResponse, linked bool) *logPlan {
	if !linked || !isRunning(inspect) || inspect.HostConfig == nil ||
		inspect.HostConfig.LogConfig.Type != logs.DriverJSONFile {
		return nil
	}
	return &logPlan{
		container: containerName(inspect), path: translate.LogPath(inspect.Config.Labels),
		id: inspect.ID, engine: inspect.LogPath,
	}
}

func containerName(inspect *container.InspectResponse) string {
	config, _, err := translate.ContainerConfig(inspect.Config.Labels, inspect.Name)
	if err != nil {
		return strings.TrimPrefix(inspect.Name, "/")
	}
	return config.GetMetadata().GetName()
}

func isRunning(inspect *container.InspectResponse) bool {
	return inspect != nil && inspect.State != nil && inspect.State.Running
}

// logNote says why a running container's log cannot be continued. It is empty if the log can be continued or need not
// be.
func logNote(inspect *container.InspectResponse) string {
	logPath := translate.LogPath(inspect.Config.Labels)
	if !isRunning(inspect) || logPath == "" || inspect.HostConfig == nil {
		return ""
	}
	driver := inspect.HostConfig.LogConfig.Type
	if driver != logs.DriverJSONFile && driver != logs.DriverLocal {
		return fmt.Sprintf("container %s: the log driver %s writes no file, the CRI log begins when the container is "+
			"next created", containerName(inspect), driver)
	}
	return ""
}
