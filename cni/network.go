package cni

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containernetworking/cni/libcni"
)

// InterfaceName is the name of a pod's interface inside its namespace. The
// kubelet and network policies take it for granted.
const InterfaceName = "eth0"

// Defaults of Options.
const (
	DefaultConfDir     = "/etc/cni/net.d"
	DefaultBinDir      = "/opt/cni/bin"
	DefaultCacheDir    = "/var/lib/criadapter/cni"
	DefaultUndoTimeout = 30 * time.Second
	DefaultStatusTTL   = 10 * time.Second
)

// Options say where a Network finds and keeps things. The zero value takes
// the defaults.
type Options struct {
	// ConfDir is the folder of network configurations. It need not exist yet.
	ConfDir string
	// BinDirs are searched for plugins, the first hit wins.
	BinDirs []string
	// CacheDir keeps what Del and Check need of every attachment. It must
	// survive restarts and belong to this program alone.
	CacheDir string
	// UndoTimeout bounds the DEL that follows a failed ADD.
	UndoTimeout time.Duration
	// StatusTTL is how long an answer of the plugins' STATUS is repeated
	// before they are asked again. The default is above the kubelet's five
	// seconds between two Status calls.
	StatusTTL time.Duration
	// Observe, when not nil, is called at the beginning of every ADD, DEL, CHECK
	// and STATUS, for metrics and traces. The operation uses the context that it
	// returns, and its error goes to the function that it returns.
	Observe func(ctx context.Context, operation string) (context.Context, func(error))
}

// Network joins pods to the network that the configuration folder names. Make
// one with New, end it with Close.
type Network struct {
	opts    Options
	exec    *pluginExec
	cni     *libcni.CNIConfig
	notes   notes
	current atomic.Pointer[snapshot]
	status  statusCache
	watch   *watcher
}

// New loads the configuration and starts to watch its folder. It succeeds
// without a folder and without a valid configuration; Status then says what is
// missing and Add fails with errdefs.ErrUnavailable until one appears. It
// fails with errdefs.ErrInvalidArgument for a relative path and with
// errdefs.ErrUnavailable when the kernel grants no inotify watch.
//
// The watching goroutine belongs to the Network and ends with Close.
func New(opts Options) (*Network, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	exec := &pluginExec{}
	n := &Network{
		opts:   opts,
		exec:   exec,
		cni:    libcni.NewCNIConfigWithCacheDir(opts.BinDirs, opts.CacheDir, exec),
		notes:  notes{dir: filepath.Join(opts.CacheDir, "pending")},
		status: newStatusCache(),
	}
	w, err := startWatcher(opts.ConfDir, n.reload)
	if err != nil {
		return nil, err
	}
	n.watch = w
	return n, nil
}

// Close stops watching and returns when the watching goroutine has ended. Calls
// that are under way finish, and Del keeps working, with the configuration of
// that moment. A second Close does nothing.
func (n *Network) Close() error {
	return n.watch.close()
}

// Config describes the configuration that Add would use now.
type Config struct {
	// Name is the network's name, empty when no configuration is loaded.
	Name string `json:"name,omitempty"`
	// File is the path it was read from.
	File string `json:"file,omitempty"`
	// CNIVersion is the version of the specification that the plugins are
	// spoken to in.
	CNIVersion string `json:"cniVersion,omitempty"`
	// Plugins are the types of the chained plugins, in the order of ADD.
	Plugins []string `json:"plugins,omitempty"`
	// Skipped are the files of the folder that hold no valid configuration.
	Skipped []SkippedFile `json:"skipped,omitempty"`
}

// SkippedFile is a configuration file that was passed over.
type SkippedFile struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

// Config returns what is loaded now, for a verbose Status. It reads memory
// only.
func (n *Network) Config() Config {
	snap := n.current.Load()
	c := Config{File: snap.file, Skipped: append([]SkippedFile(nil), snap.skipped...)}
	if snap.list == nil {
		return c
	}
	c.Name, c.CNIVersion = snap.list.Name, snap.list.CNIVersion
	for _, p := range snap.list.Plugins {
		c.Plugins = append(c.Plugins, p.Network.Type)
	}
	return c
}

func (o Options) withDefaults() Options {
	if o.ConfDir == "" {
		o.ConfDir = DefaultConfDir
	}
	if len(o.BinDirs) == 0 {
		o.BinDirs = []string{DefaultBinDir}
	}
	if o.CacheDir == "" {
		o.CacheDir = DefaultCacheDir
	}
	if o.UndoTimeout <= 0 {
		o.UndoTimeout = DefaultUndoTimeout
	}
	if o.StatusTTL <= 0 {
		o.StatusTTL = DefaultStatusTTL
	}
	if o.Observe == nil {
		o.Observe = func(ctx context.Context, _ string) (context.Context, func(error)) { return ctx, func(error) {} }
	}
	o.ConfDir = filepath.Clean(o.ConfDir)
	o.BinDirs = append([]string(nil), o.BinDirs...)
	return o
}

func (o Options) validate() error {
	paths := append([]string{o.ConfDir, o.CacheDir}, o.BinDirs...)
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			return fmt.Errorf("CNI folder %q must be an absolute path: %w", p, errdefs.ErrInvalidArgument)
		}
	}
	return nil
}
