package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/criadapter/criadapter/cmd/criadapter/status"
	"github.com/criadapter/criadapter/internal/config"
)

// usualSocket is the socket of a server that systemd starts.
const usualSocket = "unix:///run/criadapter/criadapter.sock"

// statusCommand asks the running server for its status.
func statusCommand() *cobra.Command {
	cfg := config.Default()
	var output string
	timeout := 10 * time.Second
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Ask the running server how it fares",
		Long: `status asks the running server over its CRI socket. Only the owner of the socket may ask.
The answer says how long the server has been up, whether its cache follows the engine, and how late
events are. It counts pods and containers by state. It also has the last error of a CNI plugin,
slow calls, quarantined records, and what the engine can do.

The exit code is 0 when the runtime and the network are ready, 1 when not, 2 when no server answers.`,
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
	if _, err := load(cmd, cfg); err != nil {
		return status.Answer{}, err
	}
	endpoint := endpointOf(*cfg)
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	answer, err := status.Ask(ctx, endpoint)
	switch path := endpoint[len("unix://"):]; {
	case err == nil:
		return answer, nil
	case missing(path):
		return answer, fmt.Errorf(
			"there is no socket at %s: start criadapter (systemctl start criadapter), or name its socket with "+
				"--container-runtime-endpoint", path)
	default:
		return answer, fmt.Errorf("asking the server on %s: %w", path, err)
	}
}

// endpointOf is the socket of a server with these settings.
func endpointOf(cfg config.Config) string {
	if cfg.SocketPath() == "" { // systemd's
		return usualSocket
	}
	return cfg.Endpoint
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}
