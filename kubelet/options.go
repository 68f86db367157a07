package kubelet

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/criadapter/criadapter/kubelet/backoff"
	"github.com/criadapter/criadapter/kubelet/cgroup"
)

// Options configure a Kubelet. RuntimeEndpoint is required; everything else has the kubelet's defaults, so that tests
// may be quicker.
type Options struct {
	// RuntimeEndpoint is the CRI socket, unix:///…; ImageEndpoint that of the image service, empty for the same.
	RuntimeEndpoint, ImageEndpoint string
	// RuntimeTimeout bounds each CRI call. Zero means two minutes.
	RuntimeTimeout time.Duration

	// NodeName is this node's name, in lower case. Empty means the machine's.
	NodeName string
	// NodeIPs are this node's addresses, primary first. Empty means those that the machine's default route uses.
	NodeIPs []string
	// Owner marks what this kubelet makes, see model.LabelOwner. Empty means NodeName.
	Owner string

	// Manifests is the folder of static pods; empty for none. ManifestRescan is how often it is read without notice.
	Manifests      string
	ManifestRescan time.Duration
	// ManifestURL is where more static pods are asked for; empty for none. ManifestHeader is sent with each request, and
	// ManifestURLCheck is how often there is one; zero means 20 seconds.
	ManifestURL      string
	ManifestHeader   http.Header
	ManifestURLCheck time.Duration

	// Cluster makes this machine a node of a cluster; the zero value leaves it on its own.
	Cluster ClusterOptions
	// API is the kubelet's API, which needs no cluster.
	API APIOptions

	// RootDir holds what the kubelet keeps; empty means /var/lib/kubelet-core. PodLogsDir holds the container logs; empty
	// means /var/log/pods.
	RootDir, PodLogsDir string
	// CgroupRoot is the cgroup below which the pods' cgroups are, as a path; empty means kubelet-core/Owner, so that this
	// kubelet meets neither a real one nor another core.
	CgroupRoot string
	// CgroupDriver is who makes cgroups for a runtime that does not tell (RuntimeConfig is younger than containerd 1.6):
	// cgroupfs or systemd. Empty leaves the cgroups of such a runtime to it.
	CgroupDriver cgroup.Driver
	// ReadAddress is the loopback address of the read-only endpoint; empty for none.
	ReadAddress string

	// ClusterDNS, ClusterDomain and ResolvConf are for pods' resolv.conf, see podspec.Options.
	ClusterDNS    []string
	ClusterDomain string
	ResolvConf    string
	// SeccompDefault and AllowedUnsafeSysctls are as in podspec.Options.
	SeccompDefault       bool
	AllowedUnsafeSysctls []string

	// CrashBackoff is the pause before containers that ended start again, PullBackoff the one after failed pulls.
	CrashBackoff, PullBackoff backoff.Options
	// ParallelPulls is how many images are pulled at once. Zero means one.
	ParallelPulls int

	// SyncTick is how often pods whose time has come are synced; zero means a second. Resync is each pod's usual time;
	// zero means a minute. Retry is the longest pause after an error; zero means ten seconds.
	SyncTick, Resync, Retry time.Duration
	// Housekeeping is how often leftovers are looked for; zero means two seconds.
	Housekeeping time.Duration
	// Relist is how often the runtime's pods are listed; zero means a second. NoEvents leaves its event stream alone.
	Relist   time.Duration
	NoEvents bool
	// RuntimeCheck is how often the runtime's Status is asked; zero means five seconds.
	RuntimeCheck time.Duration

	// GC says what is collected and when; Logs how logs are rotated.
	GC   GCOptions
	Logs LogOptions
}

// GCOptions say what is collected.
type GCOptions struct {
	// Containers is how often dead containers are collected; zero means a minute. Of each container DeadPerContainer
	// attempts are kept; zero means one.
	Containers       time.Duration
	DeadPerContainer int
	// Images is how often images are looked at; zero means five minutes. Above HighPercent of the disk the longest unused
	// are removed until LowPercent; HighPercent 100 means never, zero means 85, LowPercent zero means 80.
	Images                  time.Duration
	HighPercent, LowPercent int
	// ImageMinAge is how long an image must have been known; zero means two minutes.
	ImageMinAge time.Duration
}

// LogOptions say how container logs are rotated.
type LogOptions struct {
	// MaxSize is the size in bytes from which a log is rotated; zero means 10 MiB. MaxFiles is how many are kept, the
	// current one included; zero means 5.
	MaxSize  int64
	MaxFiles int
	// Check is how often sizes are looked at; zero means ten seconds.
	Check time.Duration
}

// complete fills in the defaults.
func (o *Options) complete() error {
	if o.RuntimeEndpoint == "" {
		return errors.New("the address of the container runtime is missing")
	}
	if !slices.Contains([]cgroup.Driver{"", cgroup.Cgroupfs, cgroup.Systemd}, o.CgroupDriver) {
		return fmt.Errorf("the cgroup driver %q is neither %s nor %s", o.CgroupDriver, cgroup.Cgroupfs, cgroup.Systemd)
	}
	if o.NodeName == "" {
		name, err := os.Hostname()
		if err != nil {
			return err
		}
		o.NodeName = strings.ToLower(name)
	}
	setDefault(&o.Owner, o.NodeName)
	setDefault(&o.CgroupRoot, "kubelet-core/"+o.Owner)
	setDefault(&o.RootDir, "/var/lib/kubelet-core")
	setDefault(&o.PodLogsDir, "/var/log/pods")
	setDefault(&o.SyncTick, time.Second)
	setDefault(&o.Resync, time.Minute)
	setDefault(&o.Retry, 10*time.Second)
	setDefault(&o.Housekeeping, 2*time.Second)
	setDefault(&o.RuntimeCheck, 5*time.Second)
	setDefault(&o.GC.Containers, time.Minute)
	setDefault(&o.GC.DeadPerContainer, 1)
	setDefault(&o.GC.Images, 5*time.Minute)
	setDefault(&o.GC.HighPercent, 85)
	setDefault(&o.GC.LowPercent, min(80, o.GC.HighPercent))
	setDefault(&o.GC.ImageMinAge, 2*time.Minute)
	setDefault(&o.Logs.MaxSize, 10<<20)
	setDefault(&o.Logs.MaxFiles, 5)
	setDefault(&o.Logs.Check, 10*time.Second)
	if len(o.NodeIPs) == 0 {
		o.NodeIPs = hostAddresses()
	}
	if err := o.API.check(); err != nil {
		return err
	}
	var err error
	setDefault(&o.API.CertDir, filepath.Join(o.RootDir, "pki"))
	for _, path := range []*string{&o.RootDir, &o.PodLogsDir, &o.Manifests, &o.API.CertDir} {
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return err
			}
		}
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
