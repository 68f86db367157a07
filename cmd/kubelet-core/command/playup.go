package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/criadapter/criadapter/cmd/kubelet-core/bootunit"
	"github.com/criadapter/criadapter/cmd/kubelet-core/detach"
	"github.com/criadapter/criadapter/cmd/kubelet-core/play"
)

// upFlags are the flags of play.
type upFlags struct {
	playFlags
	input       play.Input
	annotations []string
	// detach, install and uninstall exclude each other.
	detach, install, uninstall bool
	replace, build             bool
}

func playCommand() *cobra.Command {
	var flags upFlags
	cmd := &cobra.Command{
		Use: "play FILE...", Short: "Run the pods of some files until Ctrl-C, and leave nothing",
		Long: `play runs the Pods, Deployments, DaemonSets and Jobs of some files, with their ConfigMaps, Secrets,
PersistentVolumeClaims and Services, as podman kube play does. A file is a path, a URL, or - for standard input.

It stays until Ctrl-C, or kubelet-core down, or until all pods have ended. Then it ends the pods in order, and removes
everything that it made except images and the directories of claims. A second Ctrl-C does not wait for that, and prints
what is left. With --detach it goes on in the background, and with --install as a service from boot on.`,
		Example: "  kubelet-core play web.yaml --follow\n  kubelet-core play web.yaml --install\n" +
			"  kubectl create deployment web --image=nginx --dry-run=client -o yaml | kubelet-core play - -p 8080:80",
		RunE: func(cmd *cobra.Command, files []string) error { return flags.run(cmd, files) },
	}
	flags.add(cmd)
	return cmd
}

func (f *upFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&f.opts.Follow, "follow", "f", false,
		"write the containers' logs, each line with its pod and container")
	flags.BoolVarP(&f.detach, "detach", "d", false,
		"return when the pods are ready; kubelet-core down ends them")
	flags.BoolVar(&f.replace, "replace", false, "end a running play of the same name first")
	flags.BoolVar(&f.install, "install", false,
		"run the play as a service of systemd, now and from boot on, with the files and flags given here")
	flags.BoolVar(&f.uninstall, "uninstall", false, "end the service of the play and remove it")
	flags.StringArrayVarP(&f.input.Publish, "publish", "p", nil,
		"a `port` of the machine for a port of a container: [[IP:]PORT:]CONTAINERPORT[/PROTOCOL]")
	flags.BoolVar(&f.input.PublishAll, "publish-all", false,
		"publish all ports of the containers on the same ports of the machine")
	flags.StringVar(&f.input.Network, "network", "",
		"the `network` of all pods: bridge or host (default: as the files say)")
	flags.StringArrayVar(&f.input.ConfigMaps, "configmap", nil,
		"a `file` with ConfigMaps; they replace ConfigMaps of the same name in the other files")
	flags.StringArrayVar(&f.annotations, "annotation", nil, "an annotation of all pods, as `KEY=VALUE`")
	flags.BoolVar(&f.build, "build", false, "")
	_ = flags.MarkHidden("build") // check refuses it, for users of podman; the error is for unknown flags
	f.playFlags.add(cmd)
}

// check refuses flags that exclude each other.
func (f *upFlags) check(files []string) error {
	modes := 0
	for _, mode := range []bool{f.detach, f.install, f.uninstall} {
		if mode {
			modes++
		}
	}
	switch {
	case f.build:
		return fmt.Errorf("--build: a CRI runtime builds no images; build them first, with docker build: %w",
			errdefs.ErrInvalidArgument)
	case modes > 1:
		return fmt.Errorf("--detach, --install and --uninstall exclude each other: %w", errdefs.ErrInvalidArgument)
	case len(files) == 0 && !f.uninstall:
		return fmt.Errorf("play: a file is required: %w", errdefs.ErrInvalidArgument)
	case f.install && slices.Contains(files, "-"):
		return fmt.Errorf("--install: a service has no standard input; name a file: %w", errdefs.ErrInvalidArgument)
	}
	f.input.Annotations = map[string]string{}
	for _, text := range f.annotations {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("--annotation %s: want KEY=VALUE: %w", text, errdefs.ErrInvalidArgument)
		}
		f.input.Annotations[key] = value
	}
	return nil
}

func (f *upFlags) run(cmd *cobra.Command, files []string) error {
	if err := f.check(files); err != nil {
		return err
	}
	if err := f.complete(cmd, files); err != nil {
		return err
	}
	if f.uninstall {
		return bootunit.Uninstall(cmd.Context(), f.opts.Name)
	}
	stdin, err := f.stdin(cmd, files)
	if err != nil {
		return err
	}
	f.input.Files, f.input.In = files, bytes.NewReader(stdin)
	set, err := play.Read(cmd.Context(), f.input)
	if err != nil {
		return err
	}
	if f.replace {
		if err := play.Down(cmd.Context(), f.opts); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	switch {
	case f.detach:
		return f.goOn(cmd, files, stdin)
	case f.install:
		return f.serve(cmd, files, set)
	}
	abort := make(chan os.Signal, 1)
	stop := context.AfterFunc(cmd.Context(), func() { signal.Notify(abort, os.Interrupt, syscall.SIGTERM) })
	defer stop()
	f.opts.Abort = abort
	return play.Up(cmd.Context(), set, f.opts)
}

// stdin reads the standard input if it is one of the files.
func (f *upFlags) stdin(cmd *cobra.Command, files []string) ([]byte, error) {
	if !slices.Contains(files, "-") {
		return nil, nil
	}
	return io.ReadAll(cmd.InOrStdin())
}

// goOn starts the play in the background.
func (f *upFlags) goOn(cmd *cobra.Command, files []string, stdin []byte) error {
	log := f.opts.DetachedLog()
	pid, err := detach.Start(cmd.Context(), detach.Options{Args: f.playArgs(cmd, files), Stdin: stdin, Log: log,
		Status: cmd.OutOrStdout()})
	switch {
	case err != nil:
		return fmt.Errorf("play %s: %w", f.opts.Name, err)
	case pid == 0:
		fmt.Fprintf(cmd.OutOrStdout(), "The play %s has ended. Its output is in %s.\n", f.opts.Name, log)
	default:
		fmt.Fprintf(cmd.OutOrStdout(),
			"The play %s goes on as process %d. Its output is in %s. `kubelet-core down --name %[1]s` ends it.\n",
			f.opts.Name, pid, log)
	}
	return nil
}

// serve makes the play a service.
func (f *upFlags) serve(cmd *cobra.Command, files []string, set *play.Set) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	unit := bootunit.Unit(f.opts.Name)
	fmt.Fprintf(cmd.OutOrStdout(), "Installing %s. Ctrl-C does not end it.\n", unit)
	err = bootunit.Install(cmd.Context(), bootunit.Play{Name: f.opts.Name, Program: program,
		Args: f.playArgs(cmd, files), Dir: dir, Grace: set.Grace()})
	if err == nil {
		fmt.Fprintf(cmd.OutOrStdout(), "The pods are ready. `journalctl --unit %s` shows their output, and "+
			"`kubelet-core play --uninstall --name %s` removes them.\n", unit, f.opts.Name)
	}
	return err
}

// playArgs returns the arguments of the same play in the foreground.
func (f *upFlags) playArgs(cmd *cobra.Command, files []string) []string {
	args := []string{"play", "--name=" + f.opts.Name}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if slices.Contains([]string{"detach", "install", "name", "replace"}, flag.Name) {
			return
		}
		values := []string{flag.Value.String()}
		if many, ok := flag.Value.(pflag.SliceValue); ok {
			values = many.GetSlice()
		}
		for _, value := range values {
			args = append(args, "--"+flag.Name+"="+value)
		}
	})
	return append(append(args, "--"), files...)
}
