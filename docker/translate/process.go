package translate

import (
	"strings"

	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// process sets the command of a container. Docker uses the image's values by the same rules as CRI: a command replaces
// the image's entrypoint and arguments, and arguments alone replace the image's arguments.
func process(in *runtimeapi.ContainerConfig, config *container.Config) error {
	command, err := arguments("config.command", in.GetCommand())
	if err != nil {
		return err
	}
	if len(command) > 0 && command[0] == "" {
		// Docker would drop an empty program and run the arguments.
		return invalid(item("config.command", 0), "is empty, name a program")
	}
	args, err := arguments("config.args", in.GetArgs())
	if err != nil {
		return err
	}
	env, err := environment("config.envs", in.GetEnvs())
	if err != nil {
		return err
	}
	if in.GetWorkingDir() != "" {
		config.WorkingDir, err = absolutePath("config.working_dir", in.GetWorkingDir())
		if err != nil {
			return err
		}
	}
	config.StopSignal, err = stopSignal("config.stop_signal", in.GetStopSignal())
	if err != nil {
		return err
	}
	config.Entrypoint, config.Cmd, config.Env = command, args, env
	config.OpenStdin, config.StdinOnce, config.Tty = in.GetStdin(), in.GetStdinOnce(), in.GetTty()
	return nil
}

// arguments checks and copies a list. It returns nil for an empty list.
func arguments(field string, list []string) ([]string, error) {
	var out []string
	for i, argument := range list {
		if err := checkArgument(item(field, i), argument); err != nil {
			return nil, err
		}
		out = append(out, argument)
	}
	return out, nil
}

func environment(field string, envs []*runtimeapi.KeyValue) ([]string, error) {
	var out []string
	for i, env := range envs {
		key, value := env.GetKey(), string(env.GetValue())
		if key == "" || strings.Contains(key, "=") {
			return nil, invalid(item(field, i)+".key", "%q is not the name of a variable", key)
		}
		if err := checkArgument(item(field, i)+".key", key); err != nil {
			return nil, err
		}
		if err := checkArgument(item(field, i)+".value", value); err != nil {
			return nil, err
		}
		out = append(out, key+"="+value)
	}
	return out, nil
}
