package kubelet

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/criadapter/criadapter/kubelet/backoff"
	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/eviction"
	"github.com/criadapter/criadapter/kubelet/housekeeping"
	"github.com/criadapter/criadapter/kubelet/nodeshutdown"
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

	// Manifests is the directory of static pods; empty for none. ManifestRescan is how often it is read without notice.
	Manifests      string
	ManifestRescan time.Duration
	// ManifestURL is where more static pods are asked for; empty for none. ManifestHeader is sent with each request,
	// and ManifestURLCheck is how often there is one; zero means 20 seconds.
	ManifestURL      string
	ManifestHeader   http.Header
	ManifestURLCheck time.Duration

	// Cluster makes this machine a node of a cluster; the zero value leaves it on its own.
	Cluster ClusterOptions
	// API is the kubelet's API, which needs no cluster.
	API APIOptions

	// RootDir holds what the kubelet keeps; empty means /var/lib/kubelet-core/Owner. It is this process's while it runs, and
	// for the pods of one owner for ever. PodLogsDir holds the container logs; empty means /var/log/kubelet-core/Owner.
	RootDir, PodLogsDir string
	// LeaveNothing has the end of Run remove everything of this owner, pods that still run and all of RootDir included; it
	// must be this owner's already, or empty. See Kubelet.Empty for an end in order.
	LeaveNothing bool
	// BesideKubelet starts although a kubelet seems to run on this machine. One on the same runtime kills these pods.
	BesideKubelet bool
	// CgroupRoot is the cgroup below which the pods' cgroups are, as a path; empty means kubelet-core/Owner, so that
	// this kubelet meets neither a real one nor another core.
	CgroupRoot string
	// CgroupDriver is who makes cgroups for a runtime that does not report it (RuntimeConfig is younger than containerd 1.6):
	// cgroupfs or systemd. Empty leaves the cgroups of such a runtime to it.
	CgroupDriver cgroup.Driver
	// ReadAddress is the loopback address of the read-only endpoint; empty for none.
	ReadAddress string

	// ClusterDNS, ClusterDomain and ResolvConf are for pods' resolv.conf, see podspec.Options.
	ClusterDNS    []string
	ClusterDomain string
	ResolvConf    string
	// SeccompDefault is as in podspec.Options, AllowedUnsafeSysctls as in admission.Options.
	SeccompDefault       bool
	AllowedUnsafeSysctls []string

	// CrashBackoff is the pause before containers that ended start again, PullBackoff the one after failed pulls.
	CrashBackoff, PullBackoff backoff.Options
	// ParallelPulls is how many images are pulled at once. Zero means one.
	ParallelPulls int

	// PodPids is how many processes and threads a pod may have; 0 for no limit.
	PodPids int64

	// SyncTick is how often pods whose time has come are synced; zero means a second. Resync is each pod's usual time;
	// zero means a minute. Retry is the longest pause after an error; zero means ten seconds.
	SyncTick, Resync, Retry time.Duration
	// Housekeeping is how often leftovers are looked for; zero means two seconds.
	Housekeeping time.Duration
	// Relist is how often the runtime's pods are listed; zero means a second. NoEvents leaves its event stream alone.
	Relist   time.Duration
	NoEvents bool
	// runtimeCheck is how often the runtime's Status is asked; zero means five seconds.
	runtimeCheck time.Duration

	// GC says what is collected and when: without a cluster no images, unless HighPercent is set. Logs says how logs are rotated.
	GC   housekeeping.GCOptions
	Logs housekeeping.LogOptions

	// EvictionHard are the thresholds from which on pods are evicted, as eviction.ParseThresholds reads them. Nil means the
	// kubelet's defaults, an empty list none. PressureTransition is how long the node's conditions show pressure after it
	// ended; zero means five minutes.
	EvictionHard       []string
	PressureTransition time.Duration
	thresholds         eviction.Thresholds

	// ShutdownGrace is how long the machine's shutdown is delayed at most, by logind, while pods end; zero leaves shutdowns
	// alone. ShutdownGraceCritical is the part of it that pods of a critical priority get, which end last.
	ShutdownGrace, ShutdownGraceCritical time.Duration
}

// ClusterOptions say which cluster the node belongs to, and as what. Zero values are the kubelet's defaults.
type ClusterOptions struct {
	// Kubeconfig is the file that says where the API server is and who this node is; empty for no cluster.
	Kubeconfig string
	// Labels and Taints are those that a new node is registered with.
	Labels map[string]string
	Taints []v1.Taint
	// MaxPods is how many pods the node takes; zero means 110. Reserved is what is kept from them, without a cluster, too:
	// none is given to them, and the cgroup of all pods is limited to the rest.
	MaxPods  int
	Reserved v1.ResourceList
	// StatusEvery is how often the node's status is looked at; zero means ten seconds.
	StatusEvery time.Duration
}

// APIOptions say how the kubelet's API is served, see package nodeapi.
type APIOptions struct {
	// Address and Port are where it listens; an empty address stands for all, port 0 for no API.
	Address string
	Port    int32
	// CertFile and KeyFile are the serving pair; without them one is made in CertDir, empty for RootDir/pki.
	CertFile, KeyFile, CertDir string
	// ClientCAFile signs those who may use it; it is required.
	ClientCAFile string
	// Users and Groups are who may use it; without any the API server of the cluster is asked.
	Users, Groups []string
}

func (o *APIOptions) check(cluster bool) error {
	switch {
	case o.Port == 0:
		return nil
	case o.ClientCAFile == "":
		return errors.New("the API on a port other than 0 needs a client CA file: no client could be authenticated")
	case !cluster && len(o.Users)+len(o.Groups) == 0:
		return errors.New("the API on a port other than 0 needs users or groups that may use it, or a kubeconfig")
	case slices.Contains(o.Users, "") || slices.Contains(o.Groups, ""):
		return errors.New("the users and groups that may use the API need names: one is empty")
	default:
		return nil
	}
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
	if problems := validation.IsValidLabelValue(o.Owner); len(problems) > 0 {
		return fmt.Errorf("the owner %q: %s", o.Owner, strings.Join(problems, "; "))
	}
	setDefault(&o.CgroupRoot, "kubelet-core/"+o.Owner)
	// Cgroups below it that are not of known pods are removed: those right at the top are a real kubelet's.
	if o.CgroupRoot = path.Join("/", o.CgroupRoot); o.CgroupRoot == "/" {
		return errors.New("the cgroup root is that of the machine, where a kubelet has its pods: give one of your own")
	}
	setDefault(&o.RootDir, filepath.Join("/var/lib/kubelet-core", o.Owner))
	setDefault(&o.PodLogsDir, filepath.Join("/var/log/kubelet-core", o.Owner))
	if o.Cluster.Kubeconfig == "" {
		setDefault(&o.GC.HighPercent, 100) // the machine's images are somebody's work, not a cluster's
	}
	setDefault(&o.SyncTick, time.Second)
	setDefault(&o.Resync, time.Minute)
	setDefault(&o.Retry, 10*time.Second)
	setDefault(&o.Housekeeping, 2*time.Second)
	setDefault(&o.runtimeCheck, 5*time.Second)
	if len(o.NodeIPs) == 0 {
		o.NodeIPs = hostAddresses()
	}
	if o.EvictionHard == nil {
		o.EvictionHard = eviction.DefaultThresholds()
	}
	var err error
	if o.thresholds, err = eviction.ParseThresholds(o.EvictionHard); err != nil {
		return fmt.Errorf("eviction threshold %w", err)
	}
	if err := nodeshutdown.CheckPeriods(o.ShutdownGrace, o.ShutdownGraceCritical); err != nil {
		return err
	}
	if err := o.API.check(o.Cluster.Kubeconfig != ""); err != nil {
		return err
	}
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

// allocatable is what pods may have of a capacity: all that is not reserved. That nothing is left is an error: without an
// amount there would be no limit.
func allocatable(capacity, reserved v1.ResourceList) (v1.ResourceList, error) {
	left := v1.ResourceList{}
	for name, whole := range capacity {
		amount, kept := whole.DeepCopy(), reserved[name]
		amount.Sub(kept)
		switch {
		case amount.Sign() > 0:
			left[name] = amount
		case kept.Sign() > 0:
			return nil, fmt.Errorf("reserved are %s of %s, which leaves nothing of %s to pods", kept.String(), name, whole.String())
		}
	}
	return left, nil
}

// checkSlices refuses names that systemd does not tell from others: it has underscores for the dashes in them.
func checkSlices(driver cgroup.Driver, root string) error {
	if driver == cgroup.Systemd && strings.Contains(root, "_") {
		return fmt.Errorf("the cgroup root %s has an underscore, and systemd would have one for each dash: give an --owner, or the play a --name, without underscores", root)
	}
	return nil
}

// credentialFiles are where Docker's configuration with the credentials of registries may be, as for the kubelet.
func credentialFiles(rootDir string) []string {
	files := []string{filepath.Join(rootDir, "config.json")}
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".docker", "config.json"))
	}
	return files
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// hostAddresses are the addresses from which this machine would reach others, IPv4 first; the loopback address on a
// machine that reaches nobody. No packet is sent: the kernel picks the address when a UDP socket is connected.
func hostAddresses() []string {
	var found []string
	for _, far := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} { // addresses for documentation, RFC 5737 and 3849
		conn, err := net.Dial("udp", far)
		if err != nil {
			continue
		}
		if address, ok := conn.LocalAddr().(*net.UDPAddr); ok && address.IP.IsGlobalUnicast() {
			found = append(found, address.IP.String())
		}
		conn.Close()
	}
	if len(found) == 0 {
		found = []string{"127.0.0.1"}
	}
	return found
}
