package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/criadapter/criadapter/cmd/criadapter/status"
	"github.com/criadapter/criadapter/internal/config"
)

// statusCommand asks the running server for its status.
func statusCommand() *cobra.Command {
	cfg := config.Default()
	var output string
	timeout := 10 * time.Second
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the status of the running server",
		Long: `status asks the running server over its CRI socket. Only the owner of the socket may ask.
Without --container-runtime-endpoint it looks at the sockets of criadapter's units, too: of its own,
and of the package criadapter-cri-docker.
The answer says how long the server has been up, whether its cache follows the engine, and how late
events are. It counts pods and containers by state. It also has the last error of a CNI plugin,
slow calls, quarantined records, and what the engine can do.

The exit code is 0 when the runtime and the network are ready, and 1 when not. It is 2 when no
server answers, or the settings are invalid.`,
		Example: `  criadapter status
  criadapter status --container-runtime-endpoint unix:///tmp/c/cri.sock -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := ask(cmd, &cfg, timeout)
			if err != nil {
				cmd.PrintErrf("criadapter: %v\n", err)
				return &ExitError{Code: 2}
			}
			if output == formJSON {
				err = writeJSON(cmd.OutOrStdout(), answer)
			} else {
				err = answer.WriteText(cmd.OutOrStdout(), time.Now())
			}
			if err == nil && !answer.Ready() {
				err = &ExitError{Code: 1}
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the answer")
	addOutput(cmd, &output, formText, formJSON)
	addServerFlags(cmd, &cfg, "container-runtime-endpoint")
	return cmd
}

func ask(cmd *cobra.Command, cfg *config.Config, timeout time.Duration) (status.Answer, error) {
	origins, err := load(cmd, cfg)
	if err != nil {
		return status.Answer{}, err
	}
	endpoints := endpointsOf(*cfg, origins)
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	answer, err := find(ctx, endpoints, status.Ask)
	switch {
	case err == nil:
		return answer, nil
	case missing(answer.Endpoint):
		return answer, fmt.Errorf(
			"there is no socket of criadapter at %s: start criadapter (systemctl start criadapter, or cri-docker with "+
				"the package criadapter-cri-docker), or name its socket with --container-runtime-endpoint",
			strings.Join(pathsOf(endpoints), " or "))
	default:
		return answer, fmt.Errorf("asking the server on %s: %w", pathOf(answer.Endpoint), err)
	}
}
