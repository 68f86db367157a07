package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
)

// patience is for how many times FolderOptions.Settle a scan is put off by changes.
const patience = 20

// FolderOptions configure a Folder. Dir is required.
type FolderOptions struct {
	// Dir holds the manifests: its regular files named *.yaml, *.yml and *.json that do not begin with a dot. It may
	// be missing, and come later.
	Dir string
	// NodeName is this node's name.
	NodeName string
	// Rescan is how often the folder is read without a notification. Zero means 20 seconds, as the kubelet.
	Rescan time.Duration
	// Settle is how long a file must have been left alone before it is read, so that one that is still being written
	// is not taken for the whole. Zero means 100 milliseconds.
	Settle time.Duration
	// Problem is called when what is wrong with a file changed: with nil when it is right again. Nil logs it.
	Problem func(path string, err error)
}

// Folder is the source of static pods, config maps and secrets in files.
//
// A file that cannot be read as a whole takes nothing away: the pods that it named before and that are not among the
// readable ones run on, until it is put right or removed.
type Folder struct {
	opts    FolderOptions
	mux     *Mux
	objects *Objects
	files   map[string]*document
}

// NewFolder makes the source. Restored pods of the checkpoint stand for the files they came from, until those are read.
func NewFolder(opts FolderOptions, mux *Mux, objects *Objects, restored []*v1.Pod) *Folder {
	if opts.Rescan == 0 {
		opts.Rescan = 20 * time.Second
	}
	if opts.Settle == 0 {
		opts.Settle = 100 * time.Millisecond
	}
	if opts.Problem == nil {
		opts.Problem = logProblem
	}
	f := &Folder{opts: opts, mux: mux, objects: objects, files: map[string]*document{}}
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

func logProblem(path string, err error) {
	if err != nil {
		logrus.WithError(err).WithField("manifest", path).Error("A manifest has errors; what it named before stays")
		return
	}
	logrus.WithField("manifest", path).Info("The manifest is right again")
}

// Run tells the folder's pods until ctx ends.
func (f *Folder) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch manifests: %w", err)
	}
	defer watcher.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var first time.Time // of the notices since the last scan
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
			if time.Since(first) < patience*f.opts.Settle { // a folder that never settles is read all the same
				timer.Reset(f.opts.Settle)
			}
		case err := <-watcher.Errors:
			logrus.WithError(err).Warn("Watching the manifests failed; the next scan finds what was missed")
		case <-timer.C:
			// Adding a folder again is harmless, and needed when it was replaced. One that is not there yet is read at
			// the next scan.
			_ = watcher.Add(f.opts.Dir)
			if err := f.scan(ctx); err != nil && ctx.Err() == nil {
				logrus.WithError(err).Error("Reading the manifests failed")
			}
			first = time.Time{}
			timer.Reset(f.opts.Rescan)
		}
	}
}

// scan reads the folder and tells what it holds.
func (f *Folder) scan(ctx context.Context) error {
	paths, err := f.list()
	if err != nil {
		return err
	}
	for path := range f.files {
		if !slices.Contains(paths, path) {
			delete(f.files, path)
		}
	}
	var pods []*v1.Pod
	var configMaps []*v1.ConfigMap
	var secrets []*v1.Secret
	for _, path := range paths {
		f.read(path)
		pods = append(pods, f.files[path].pods...)
		configMaps = append(configMaps, f.files[path].configMaps...)
		secrets = append(secrets, f.files[path].secrets...)
	}
	f.objects.Replace(configMaps, secrets) // first: the pods may need them
	return f.mux.Set(ctx, model.SourceFile, pods)
}

// list names the manifests in order. A folder that is not there is empty.
func (f *Folder) list() ([]string, error) {
	entries, err := os.ReadDir(f.opts.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			continue
		}
		path := filepath.Join(f.opts.Dir, entry.Name())
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// read brings f.files[path] up to date.
func (f *Folder) read(path string) {
	known := f.files[path]
	if known == nil {
		known = &document{}
		f.files[path] = known
	}
	content, err := readManifest(path)
	if err == nil {
		err = known.read(content, manifest.Origin{Source: model.SourceFile, Location: path, NodeName: f.opts.NodeName, Seen: time.Now()})
	}
	known.report(f.opts.Problem, path, err)
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
