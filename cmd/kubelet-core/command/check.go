package command

import (
	"encoding/json"
	"fmt"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/criadapter/criadapter/cmd/kubelet-core/check"
	"github.com/criadapter/criadapter/cmd/kubelet-core/client"
)

// checkCommand makes the command check, which reports problems of the node with their remedies.
func checkCommand() *cobra.Command {
	var run runFlags
	var output string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look for problems that keep this node from running pods",
		Long: `check looks at the settings, the runtime, the manifests, cgroups and disks. It changes nothing.
Each line is ok, warn or fail. A warning and a failure say what to do. It takes the flags of run.

The exit code is 0 without a failure and 1 with one.`,
		Example: `  kubelet-core check
  kubelet-core check --config /etc/kubelet-core/config.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := run.load(cmd.Flags()); err != nil {
				return err
			}
			logrus.SetLevel(logrus.ErrorLevel) // log lines would mix with the report
			report := check.Run(cmd.Context(), run.opts)
			var err error
			switch output {
			case "json":
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				err = encoder.Encode(report)
			case "text":
				err = report.WriteText(cmd.OutOrStdout())
			default:
				err = fmt.Errorf("--output %q is neither text nor json", output)
			}
			if err == nil && report.Failures > 0 {
				err = &client.ExitError{Code: 1}
			}
			return err
		},
	}
	run.add(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}
