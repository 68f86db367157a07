package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/cmd/kubelet-core/client"
)

// defaultReadAddress is the default address of the read-only endpoint. It differs from the address of a kubelet's
// health endpoint, 127.0.0.1:10248.
const defaultReadAddress = "127.0.0.1:10348"

// readFlags are the flags of the commands that read from a running kubelet core.
type readFlags struct {
	address, namespace string
}

func (f *readFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.address, "read-address", defaultReadAddress,
		"the `address` of the kubelet core's read-only endpoint, which its --read-address sets")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "the pod's `namespace` (default: any)")
}

func (f *readFlags) client() *client.Client { return client.New(f.address) }

func (f *readFlags) ref(name string) client.Ref {
	return client.Ref{Namespace: f.namespace, Name: name}
}

func getCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "get", Short: "Show pods",
		// The error must be about the resource, not about flags.
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(_ *cobra.Command, args []string) error {
			return fmt.Errorf("get %s: pods are the only resource: kubelet-core get pods: %w", strings.Join(args, " "),
				errdefs.ErrInvalidArgument)
		},
	}
	cmd.AddCommand(getPodsCommand())
	return cmd
}

func getPodsCommand() *cobra.Command {
	var flags readFlags
	var watch bool
	var output string
	cmd := &cobra.Command{
		Use: "pods [NAME...]", Aliases: []string{"pod", "po"}, Short: "Show pods as a table",
		RunE: func(cmd *cobra.Command, names []string) error {
			request := podsRequest{client: flags.client(), flags: flags, names: names, output: output}
			if watch {
				if output != "" && output != "wide" {
					return fmt.Errorf("--watch shows tables only, not %s: %w", output, errdefs.ErrInvalidArgument)
				}
				return request.client.Watch(cmd.Context(), cmd.OutOrStdout(),
					client.WatchOptions{Wanted: request.wanted, Wide: output == "wide"})
			}
			return request.show(cmd)
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "after listing, watch for changes")
	cmd.Flags().StringVarP(&output, "output", "o", "", "`form`: wide for a table with more columns, json or yaml")
	return cmd
}

type podsRequest struct {
	client *client.Client
	flags  readFlags
	names  []string
	output string
}

// wanted reports whether the command names the pod. A watch does not check that the named pods exist.
func (r *podsRequest) wanted(pod *v1.Pod) bool {
	if len(r.names) == 0 {
		return r.flags.namespace == "" || pod.Namespace == r.flags.namespace
	}
	return slices.ContainsFunc(r.names, func(name string) bool { return client.Matches(pod, r.flags.ref(name)) })
}

func (r *podsRequest) show(cmd *cobra.Command) error {
	pods, err := r.client.Pods(cmd.Context())
	if err != nil {
		return err
	}
	for _, name := range r.names {
		if _, err := client.Select(pods, r.flags.ref(name)); err != nil {
			return err
		}
	}
	var chosen []v1.Pod
	for i := range pods {
		if r.wanted(&pods[i]) {
			chosen = append(chosen, pods[i])
		}
	}
	if r.output != "" && r.output != "wide" {
		return printObject(cmd.OutOrStdout(), r.output,
			&v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: chosen})
	}
	if len(chosen) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "No pods.")
		return nil
	}
	return client.WriteTable(cmd.OutOrStdout(), chosen, client.TableOptions{Wide: r.output == "wide", Now: time.Now()})
}

func printObject(out io.Writer, format string, object any) error {
	var text []byte
	var err error
	switch format {
	case "json":
		text, err = json.MarshalIndent(object, "", "  ")
	case "yaml":
		text, err = yaml.Marshal(object)
	default:
		err = fmt.Errorf("--output: %q is none of wide, json and yaml: %w", format, errdefs.ErrInvalidArgument)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, string(text))
	return err
}
