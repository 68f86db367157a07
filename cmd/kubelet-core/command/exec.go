package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	cri "k8s.io/cri-client/pkg"

	"github.com/criadapter/criadapter/cmd/kubelet-core/client"
)

// execTimeout bounds the connection to the runtime and each call, not the command in the container.
const execTimeout = 30 * time.Second

func execCommand() *cobra.Command {
	var flags readFlags
	var opts execFlags
	cmd := &cobra.Command{
		Use: "exec POD [-it] [-c CONTAINER] -- COMMAND [ARG...]", Short: "Run a command in a container",
		Example: "  kubelet-core exec -it web -- sh",
		RunE: func(cmd *cobra.Command, args []string) error {
			// All arguments after the dashes belong to the command.
			dash := cmd.ArgsLenAtDash()
			if dash < 0 && len(args) > 1 {
				dash = 1
			}
			if dash != 1 || len(args) < 2 {
				return fmt.Errorf(
					"exec: a pod and, after --, a command are required: kubelet-core exec POD -- COMMAND: %w",
					errdefs.ErrInvalidArgument)
			}
			return opts.run(cmd, flags, args)
		},
	}
	flags.add(cmd)
	cmd.Flags().SetInterspersed(true)
	cmd.Flags().BoolVarP(&opts.stdin, "stdin", "i", false, "pass standard input to the container")
	cmd.Flags().BoolVarP(&opts.tty, "tty", "t", false, "give the command a terminal")
	cmd.Flags().StringVarP(&opts.container, "container", "c", "",
		"the `container` (default: the one in the annotation kubectl.kubernetes.io/default-container, or the first)")
	return cmd
}

type execFlags struct {
	stdin, tty bool
	container  string
}

func (f *execFlags) run(cmd *cobra.Command, flags readFlags, args []string) (err error) {
	ctx, kubelet := cmd.Context(), flags.client()
	pod, err := kubelet.Find(ctx, flags.ref(args[0]))
	if err != nil {
		return err
	}
	name, others, err := client.Container(pod, f.container)
	if err != nil {
		return err
	}
	if len(others) > 0 && !f.tty {
		fmt.Fprintf(cmd.ErrOrStderr(), "Defaulted container %q out of: %s\n", name, strings.Join(others, ", "))
	}
	id, err := client.RunningContainer(pod, name)
	if err != nil {
		return err
	}
	config, err := kubelet.Config(ctx)
	if err != nil {
		return err
	}
	connect, cancel := context.WithTimeout(ctx, execTimeout)
	defer cancel()
	runtime, err := cri.NewRemoteRuntimeServiceBuilder().WithEndpoint(config.RuntimeEndpoint).
		WithConnectionTimeout(execTimeout).
		WithTracerProvider(nil).Build(connect)
	if err != nil {
		return fmt.Errorf("runtime %s: %w", config.RuntimeEndpoint, err)
	}
	defer func() { err = errors.Join(err, runtime.Close(context.WithoutCancel(ctx))) }()
	opts := client.ExecOptions{Command: args[1:], TTY: f.tty, Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()}
	if f.stdin {
		opts.Stdin = cmd.InOrStdin()
	}
	if f.tty {
		restore, err := setUpTerminal(ctx, &opts)
		if err != nil {
			return err
		}
		defer restore()
	}
	return client.Exec(ctx, runtime, id, opts)
}

// setUpTerminal puts the user's terminal into raw mode, and sends its size to the container. It does nothing if
// standard input is not a terminal.
func setUpTerminal(ctx context.Context, opts *client.ExecOptions) (restore func(), err error) {
	input := int(os.Stdin.Fd())
	if !term.IsTerminal(input) {
		return func() {}, nil
	}
	before, err := term.MakeRaw(input)
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	sizes := make(chan client.Size, 1)
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	watch, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		sendSizes(watch, input, sizes, changed)
	}()
	opts.Sizes = sizes
	return func() {
		stop()
		<-done
		signal.Stop(changed)
		_ = term.Restore(input, before)
	}, nil
}

// sendSizes sends the terminal's size, at first and when it changes.
func sendSizes(ctx context.Context, terminal int, sizes chan<- client.Size, changed <-chan os.Signal) {
	for {
		if width, height, err := term.GetSize(terminal); err == nil {
			select {
			case sizes <- client.Size{Width: uint16(width), Height: uint16(height)}:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
