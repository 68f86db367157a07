package podconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/log"
	"github.com/fsnotify/fsnotify"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
)

// patience bounds how long further changes delay a scan, in multiples of FileOptions.settle.
const patience = 20

// FileOptions configure a FileSource. Dir is required.
type FileOptions struct {
	// Dir has the manifests: its regular files named *.yaml, *.yml and *.json that do not begin with a dot. It may be
	// missing and be created later.
	Dir string
	// NodeName is this node's name.
	NodeName string
	// Rescan is the time between two scans without a notification. Zero means 20 seconds, as in the kubelet.
	Rescan time.Duration
	// settle is the time without a change before a file is read, so a file that is still being written is not read.
	// Zero means 100 milliseconds.
	settle time.Duration
	// Problem is called when the problem of a file changes, and with nil when it is over. Nil logs it.
	Problem func(path string, err error)
}

// FileSource is the source of static pods in files, and of the objects that they name.
//
// A file with errors removes nothing. Its earlier pods run on until the file is corrected or removed, or until its
// readable part replaces them.
type FileSource struct {
	opts    FileOptions
	config  *PodConfig
	objects *Objects
	files   map[string]*document
}

// NewFileSource makes the source. A file has the restored pods of the checkpoint until it is read.
func NewFileSource(opts FileOptions, config *PodConfig, objects *Objects, restored []*v1.Pod) *FileSource {
	opts.Rescan = cmp.Or(opts.Rescan, 20*time.Second)
	opts.settle = cmp.Or(opts.settle, 100*time.Millisecond)
	f := &FileSource{opts: opts, config: config, objects: objects, files: map[string]*document{}}
	for _, pod := range restored {
		if pod.Annotations[model.AnnotationConfigSource] != model.SourceFile {
			continue
		}
		path := pod.Annotations[model.AnnotationManifest]
		if f.files[path] == nil {
			f.files[path] = &document{}
		}
		f.files[path].pods = append(f.files[path].pods, pod)
	}
	return f
}

// Run sets the directory's pods until ctx ends. If no inotify instance is left, it finds changes only by its scans.
func (f *FileSource) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		log.G(ctx).WithError(err).WithField("source", model.SourceFile).
			Warn("cannot watch manifests, they are scanned periodically; raise fs.inotify.max_user_instances")
		watcher = &fsnotify.Watcher{} // its nil channels never receive
	} else {
		defer watcher.Close()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var first time.Time // first notification since the last scan
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, ok := <-watcher.Events:
			if !ok {
				return errors.New("watch manifests: the watcher ended")
			}
			if first.IsZero() {
				first = time.Now()
			}
			if time.Since(first) < patience*f.opts.settle { // a directory that never settles is read anyway
				timer.Reset(f.opts.settle)
			}
		case err := <-watcher.Errors:
			log.G(ctx).WithError(err).WithField("source", model.SourceFile).
				Warn("watch of manifests failed, the next scan finds missed changes")
		case <-timer.C:
			// Adding a watched directory again is harmless, and needed after the directory was replaced. While the
			// directory is missing, Add fails and the next scan tries again.
			if err == nil {
				_ = watcher.Add(f.opts.Dir)
			}
			if err := f.scan(ctx); err != nil && ctx.Err() == nil {
				log.G(ctx).WithError(err).WithField("source", model.SourceFile).Error("manifests cannot be read")
			}
			first = time.Time{}
			timer.Reset(f.opts.Rescan)
		}
	}
}

// scan reads the directory and sets its pods and objects.
func (f *FileSource) scan(ctx context.Context) error {
	paths, err := f.list()
	if err != nil {
		return err
	}
	for path, known := range f.files {
		if !slices.Contains(paths, path) {
			known.report(ctx, f.opts.Problem, path, nil)
			delete(f.files, path)
		}
	}
	var pods []*v1.Pod
	var objects manifest.Objects
	for _, path := range paths {
		f.read(ctx, path)
		pods = append(pods, f.files[path].pods...)
		objects.Append(f.files[path].objects)
	}
	f.objects.replace(objects) // objects first, because the pods may need them
	return f.config.Set(ctx, model.SourceFile, pods)
}

// list returns the manifests in order. A missing directory is empty. A file whose kind cannot be read is listed: it
// may be a manifest, and its pods must not end.
func (f *FileSource) list() ([]string, error) {
	entries, err := os.ReadDir(f.opts.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") ||
			!slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			continue
		}
		path := filepath.Join(f.opts.Dir, entry.Name())
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() || err != nil && !errors.Is(err, os.ErrNotExist) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// read brings f.files[path] up to date.
func (f *FileSource) read(ctx context.Context, path string) {
	known := f.files[path]
	if known == nil {
		known = &document{}
		f.files[path] = known
	}
	content, err := readManifest(path)
	if err == nil {
		err = known.read(content,
			manifest.Origin{Source: model.SourceFile, Location: path, NodeName: f.opts.NodeName, Seen: time.Now()})
	}
	known.report(ctx, f.opts.Problem, path, err)
}

func readManifest(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxManifest {
		return nil, fmt.Errorf("it has %d bytes, more than %d", info.Size(), maxManifest)
	}
	return os.ReadFile(path)
}
