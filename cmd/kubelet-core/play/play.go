package play

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/kubelet"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/nodelock"
)

// Options configure a play.
type Options struct {
	// Name identifies the play. It is part of the pods' owner and of the directories' names.
	Name string
	// Kubelet has the runtime and further options of the kubelet core. Owner follows from Name, and so does an empty
	// RootDir or PodLogsDir.
	Kubelet kubelet.Options
	// Follow also writes the containers' logs. Colours gives each name in a line a colour. Out gets all lines.
	Follow, Colours bool
	Out             io.Writer
	// Width returns the columns of Out's window, where pods that are not ready are shown. Nil means no window.
	Width func() int
	// A value from Abort ends the clean-up at once. A nil channel never interrupts it.
	Abort <-chan os.Signal
}

// root is the root directory of the play's kubelet core. No other play uses it.
func (o *Options) root() string {
	return cmp.Or(o.Kubelet.RootDir, filepath.Join("/var/lib/kubelet-core", o.owner()))
}

func (o *Options) logs() string {
	return cmp.Or(o.Kubelet.PodLogsDir, filepath.Join("/var/log/kubelet-core", o.owner()))
}

// DetachedLog is the file for the output of a play in the background. Down removes it.
func (o *Options) DetachedLog() string { return o.logs() + ".log" }

func (o *Options) owner() string { return "play-" + o.Name }

func (o *Options) manifests() string { return filepath.Join(o.root(), "manifests") }

// kubelet makes the kubelet core of a play. At its end, the kubelet core removes all pods and directories of the play.
func (o *Options) kubelet(ctx context.Context) (*kubelet.Kubelet, error) {
	opts := o.Kubelet
	opts.Owner, opts.RootDir, opts.PodLogsDir, opts.Manifests, opts.LeaveNothing = o.owner(), o.root(), o.logs(),
		o.manifests(), true
	return kubelet.New(ctx, opts)
}

// clear makes the directory of the manifests, or empties it after a killed play.
func (o *Options) clear() error {
	return errors.Join(os.MkdirAll(o.manifests(), 0o700), removeManifests(o.manifests()))
}

// Up runs the pods of a set until ctx ends, a process calls Down, or all pods have ended. Then it ends the remaining
// pods and removes everything. A failed pod is an error. After a value from Abort, the error names the pods and
// directories that are left.
func Up(ctx context.Context, set *Set, opts Options) error {
	running := context.WithoutCancel(ctx) // the kubelet core outlives ctx, because it has to end the pods
	k, err := opts.kubelet(ctx)
	if err != nil {
		return err
	}
	if err = opts.clear(); err == nil {
		err = writeManifests(opts.manifests(), set)
	}
	return run(running, k, func() error {
		if err != nil {
			return err // run then ends the kubelet core, and nothing is left
		}
		p := &player{set: set, opts: opts, kubelet: k, terminal: newTerminal(opts.Out, opts.Colours, opts.Width)}
		return p.watch(ctx)
	}, opts)
}

// Down ends the running play of that name, or removes the remains of a crashed one. It keeps the detached log if the
// play may still run and write to the log.
func Down(ctx context.Context, opts Options) error {
	err := down(ctx, opts)
	if err == nil || errdefs.IsNotFound(err) {
		os.Remove(opts.DetachedLog()) // only a play in the background has one
	}
	return err
}

func down(ctx context.Context, opts Options) error {
	err := nodelock.CheckOwner(opts.root(), opts.owner())
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("nothing is played under the name %s: %w", opts.Name, err)
	}
	if err != nil {
		return err
	}
	k, err := opts.kubelet(ctx)
	if errors.Is(err, nodelock.ErrInUse) {
		if err := removeManifests(opts.manifests()); err != nil {
			return err
		}
		k, err = waitGone(ctx, opts)
	}
	if err != nil || k == nil {
		return err
	}
	err = opts.clear()
	return run(context.WithoutCancel(ctx), k, func() error { return err }, opts)
}

// waitGone waits until the process of a play has removed everything. The play's manifests are already removed. If the
// process ends without having removed everything, waitGone returns a kubelet core for the clean-up.
func waitGone(ctx context.Context, opts Options) (*kubelet.Kubelet, error) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		if nodelock.Removed(opts.root()) {
			return nil, nil
		}
		k, err := opts.kubelet(ctx)
		if !errors.Is(err, nodelock.ErrInUse) {
			return k, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// run runs the kubelet core until watch returns, and then ends the pods.
func run(ctx context.Context, k *kubelet.Kubelet, watch func() error, opts Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	err := errors.Join(watch(), removeManifests(opts.manifests()))
	select {
	case early := <-ended:
		return errors.Join(err, early)
	case <-opts.Abort:
		return errors.Join(err, opts.abortError(k.Pods()))
	case <-k.Empty(ctx):
	}
	cancel()
	select {
	case late := <-ended:
		return errors.Join(err, late)
	case <-opts.Abort:
		return errors.Join(err, opts.abortError(k.Pods()))
	}
}

// abortError is the error of a play that was aborted. It names the pods and directories that are left.
func (o *Options) abortError(pods []*v1.Pod) error {
	what := "its containers have ended, and it leaves"
	if len(pods) > 0 {
		what = fmt.Sprintf("it leaves the pods %s in the container runtime,", strings.Join(model.Keys(pods), ", "))
	}
	return fmt.Errorf(
		"the play ended at once: %s %s and %s; `kubelet-core down --name %s`, with the flags of this play, "+
			"removes all of it",
		what, o.root(), o.logs(), o.Name)
}

// player shows one play.
type player struct {
	set      *Set
	opts     Options
	kubelet  *kubelet.Kubelet
	terminal *terminal
}

// watch shows the pods' states until ctx ends, the manifests are gone, or all pods have ended.
func (p *player) watch(ctx context.Context) error {
	changed, stop := p.kubelet.Watch()
	defer stop()
	news := newProgress(p.terminal)
	for _, note := range p.set.notes {
		news.say(ctx, "play", note)
	}
	ctx, cancel := context.WithCancel(ctx)
	logs := &follower{terminal: p.terminal, logs: p.opts.logs(), pods: p.kubelet.Pods, next: map[containerKey]int32{}}
	defer p.terminal.show(nil)
	defer logs.running.Wait()
	defer cancel()
	look := time.NewTicker(time.Second) // changed does not report events and removed manifests
	defer look.Stop()
	for {
		pods := p.kubelet.Pods()
		news.tell(ctx, pods, p.kubelet.Events())
		if len(pods) >= len(p.set.pods) {
			news.announce(ctx, pods)
		}
		p.terminal.show(news.waiting(pods, time.Now()))
		if p.opts.Follow {
			logs.follow(ctx, pods)
		}
		if err := writeHosts(p.opts.root(), pods, hostsLines(p.set.services, pods)); err != nil {
			log.G(ctx).WithError(err).Warn("hosts files cannot be written")
		}
		if over, err := p.allEnded(pods); over {
			logs.running.Wait() // until all logs are written
			return err
		}
		select {
		case <-ctx.Done():
			p.terminal.line("play", "ending; Ctrl-C again ends at once")
			return nil
		case <-changed:
		case <-look.C:
		}
	}
}

// allEnded says whether all pods of the play have ended, and returns their failures.
func (p *player) allEnded(pods []*v1.Pod) (bool, error) {
	left, err := filepath.Glob(filepath.Join(p.opts.manifests(), "*.yaml"))
	if err == nil && len(left) == 0 {
		p.terminal.line("play", "ending, its manifests were removed")
		return true, nil
	}
	if len(pods) < len(p.set.pods) {
		return false, nil
	}
	var failed []error
	for _, pod := range pods {
		if !model.Terminal(pod.Status.Phase) {
			return false, nil
		}
		if pod.Status.Phase == v1.PodFailed {
			failed = append(failed, fmt.Errorf("pod %s failed: %s", podName(pod), failure(pod)))
		}
	}
	return true, errors.Join(failed...)
}

// writeManifests writes each object to its own file, pods last.
func writeManifests(dir string, set *Set) error {
	w := &manifestWriter{dir: dir}
	return errors.Join(writeAll(w, "Secret", set.objects.Secrets),
		writeAll(w, "ConfigMap", set.objects.ConfigMaps),
		writeAll(w, "PersistentVolume", set.objects.PersistentVolumes),
		writeAll(w, "PersistentVolumeClaim", set.objects.Claims),
		writeAll(w, "Pod", set.pods))
}

// manifestWriter numbers the files in a directory.
type manifestWriter struct {
	dir    string
	number int
}

func writeAll[T runtime.Object](w *manifestWriter, kind string, objects []T) error {
	var errs []error
	for _, object := range objects {
		object.GetObjectKind().SetGroupVersionKind(v1.SchemeGroupVersion.WithKind(kind))
		errs = append(errs, w.write(object))
	}
	return errors.Join(errs...)
}

func (w *manifestWriter) write(object any) error {
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	w.number++
	return os.WriteFile(filepath.Join(w.dir, fmt.Sprintf("%04d.yaml", w.number)), text, 0o600)
}

func removeManifests(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	for _, file := range files {
		if gone := os.Remove(file); !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}
