package command

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/criadapter/criadapter/cmd/kubelet-core/generate"
)

func generateCommand() *cobra.Command {
	var opts generate.Options
	cmd := &cobra.Command{
		Use: "generate CONTAINER...", Short: "Make the manifest of a pod from containers of Docker Engine",
		Long: `generate writes the manifest of one pod that has the named containers of Docker Engine, as podman kube
generate does. A named volume becomes a claim, whose files are the volume's files on this machine. Comments name the
settings that a pod cannot have.
It changes nothing: end the containers before kubelet-core runs the pod.`,
		Example: "  kubelet-core generate web db > web.yaml && docker rm -f web db && kubelet-core play web.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, containers []string) error {
			if err := setUpLog("error"); err != nil {
				return err
			}
			opts.Containers = containers
			return generate.Write(cmd.Context(), cmd.OutOrStdout(), opts)
		},
	}
	cmd.Flags().StringVar(&opts.Name, "name", "", "the `name` of the pod (default: the name of the first container)")
	cmd.Flags().StringVar(&opts.Endpoint, "docker-endpoint", os.Getenv("DOCKER_HOST"),
		"the `socket` of the engine (default: DOCKER_HOST, or unix:///var/run/docker.sock)")
	return cmd
}
