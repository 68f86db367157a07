package cni

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containernetworking/cni/libcni"
)

// interfaceName is the name of a pod's interface inside its namespace. The kubelet and network policies rely on this
// name.
const interfaceName = "eth0"

// Defaults of Options.
const (
	defaultConfDir     = "/etc/cni/net.d"
	defaultBinDir      = "/opt/cni/bin"
	defaultCacheDir    = "/var/lib/criadapter/cni"
	defaultTimeout     = 2 * time.Minute
	defaultUndoTimeout = 30 * time.Second
	defaultStatusTTL   = 10 * time.Second
)

// Options are the directories and the timeouts of a Network. The zero value has the defaults.
type Options struct {
	// ConfDir is the directory of network configurations. It need not exist yet.
	ConfDir string
	// BinDirs are searched for plugins in this order.
	BinDirs []string
	// CacheDir keeps the data that Del needs, for every attachment. It must survive restarts and belong to this program
	// alone.
	CacheDir string
	// DelOnly is for a node whose new pods do not join a CNI network, while earlier pods may still be attached. ConfDir
	// is read once and not watched.
	DelOnly bool
	// Timeout bounds an ADD with all its plugins. A DEL has half of it, so that a client with the same timeout still
	// gets the error that names the hanging plugin.
	Timeout time.Duration
	// undoTimeout bounds the DEL that follows a failed ADD.
	undoTimeout time.Duration
	// statusTTL is how long Status repeats the plugins' last answer before it asks them again. The default is longer
	// than the kubelet's five seconds between two Status calls.
	statusTTL time.Duration
	// Observe is called at the beginning of every ADD, DEL, STATUS and GC, for metrics and traces. It may be nil. The
	// operation runs with the returned context, and passes its error to the returned function.
	Observe func(ctx context.Context, operation string) (context.Context, func(error))
}

// Network joins pods to the network that the configuration directory names. Make one with New, end it with Close.
type Network struct {
	opts    Options
	exec    *pluginExec
	cni     *libcni.CNIConfig
	pending pendingAdds
	current atomic.Pointer[snapshot]
	status  statusCache
	// gate is held for reading while an ADD is recorded, and for writing by GC.
	gate  sync.RWMutex
	watch *watcher
}

// New loads the configuration and starts to watch its directory. It succeeds without a directory or a valid
// configuration. Until one appears, Status says what is missing, and Add fails with errdefs.ErrUnavailable. New fails
// with errdefs.ErrInvalidArgument for a relative path.
//
// The watching goroutine belongs to the Network and ends with Close.
func New(opts Options) (*Network, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	exec := &pluginExec{}
	n := &Network{
		opts:    opts,
		exec:    exec,
		cni:     libcni.NewCNIConfigWithCacheDir(opts.BinDirs, opts.CacheDir, exec),
		pending: pendingAdds{dir: filepath.Join(opts.CacheDir, "pending")},
		status:  newStatusCache(),
	}
	if opts.DelOnly {
		n.current.Store(loadDir(opts.ConfDir))
		return n, nil
	}
	// The watcher outlives the caller: it ends with Close.
	ctx := log.WithLogger(context.Background(), log.L.WithField("component", "cni"))
	n.watch = startWatcher(ctx, opts.ConfDir, n.reload)
	return n, nil
}

// Reload has the configuration directory read again, soon and in the background, for file systems that report no
// changes. A Network with Options.DelOnly stays as it is.
func (n *Network) Reload() {
	if n.watch != nil {
		n.watch.ask()
	}
}

// Close stops watching and returns when the watching goroutine has ended. Running calls finish. Del keeps working with
// the configuration that was current at Close. A second Close does nothing.
func (n *Network) Close() {
	if n.watch != nil {
		n.watch.close()
	}
}

// begin begins an operation, which may take as long as limit. The caller passes the operation's error to end.
func (n *Network) begin(
	ctx context.Context, operation string, limit time.Duration,
) (_ context.Context, end func(error)) {
	late := fmt.Errorf("it did not end within %v: %w", limit, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	ctx, observed := n.opts.Observe(ctx, operation)
	return ctx, func(err error) {
		cancel()
		observed(err)
	}
}

// Config describes the configuration that Add would use now.
type Config struct {
	// Name is the network's name, empty when no configuration is loaded.
	Name string `json:"name,omitempty"`
	// File is the path it was read from.
	File string `json:"file,omitempty"`
	// CNIVersion is the version of the specification in which the plugins are called.
	CNIVersion string `json:"cniVersion,omitempty"`
	// Plugins are the types of the chained plugins, in the order of ADD.
	Plugins []string `json:"plugins,omitempty"`
	// Skipped are the files of the directory that hold no valid configuration.
	Skipped []SkippedFile `json:"skipped,omitempty"`
}

// SkippedFile is a configuration file that is not valid.
type SkippedFile struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

// Config returns the loaded configuration, for a verbose Status. It reads memory only.
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
	o.ConfDir = filepath.Clean(cmp.Or(o.ConfDir, defaultConfDir))
	if len(o.BinDirs) == 0 {
		o.BinDirs = []string{defaultBinDir}
	}
	o.CacheDir = cmp.Or(o.CacheDir, defaultCacheDir)
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.undoTimeout <= 0 {
		o.undoTimeout = defaultUndoTimeout
	}
	if o.statusTTL <= 0 {
		o.statusTTL = defaultStatusTTL
	}
	if o.Observe == nil {
		o.Observe = func(ctx context.Context, _ string) (context.Context, func(error)) { return ctx, func(error) {} }
	}
	o.BinDirs = append([]string(nil), o.BinDirs...)
	return o
}

func (o Options) validate() error {
	paths := append([]string{o.ConfDir, o.CacheDir}, o.BinDirs...)
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			return fmt.Errorf("CNI directory %q must be an absolute path: %w", p, errdefs.ErrInvalidArgument)
		}
	}
	return nil
}
