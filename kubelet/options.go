package kubelet

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/cpuset"

	"github.com/criadapter/criadapter/kubelet/backoff"
	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/cpumanager"
	"github.com/criadapter/criadapter/kubelet/eviction"
	"github.com/criadapter/criadapter/kubelet/housekeeping"
	"github.com/criadapter/criadapter/kubelet/imagemanager"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/nodeshutdown"
	"github.com/criadapter/criadapter/kubelet/podspec"
)

// Options configure a Kubelet. RuntimeEndpoint is required. Zero values of all other fields mean the kubelet's
// defaults, unless their comments name others.
type Options struct {
	// RuntimeEndpoint is the CRI socket, unix:///…. ImageEndpoint is the socket of the image service; empty means the
	// same.
	RuntimeEndpoint, ImageEndpoint string
	// RuntimeTimeout bounds each CRI call; zero means two minutes.
	RuntimeTimeout time.Duration

	// NodeName is this node's name, in lower case. Empty means the machine's name.
	NodeName string
	// NodeIPs are this node's addresses, at most one of each IP family, and the primary one first. Empty means the
	// addresses of the default route, also when they change later.
	NodeIPs []string
	nodeIPs *nodeAddresses
	// Owner marks this kubelet's pods, see model.LabelOwner. Empty means NodeName.
	Owner string

	// Manifests is the directory of static pods; empty means none. ManifestRescan is how often it is read without a
	// file event.
	Manifests      string
	ManifestRescan time.Duration
	// ManifestURL is a URL with more static pods; empty means none. ManifestHeader is sent with each request.
	// ManifestURLCheck is the period of requests; zero means 20 seconds.
	ManifestURL      string
	ManifestHeader   http.Header
	ManifestURLCheck time.Duration

	// Cluster makes this machine a node of a cluster. The zero value is no cluster.
	Cluster ClusterOptions
	// API is the kubelet's API. It needs no cluster.
	API APIOptions

	// RootDir has the kubelet's state; empty means /var/lib/kubelet-core/Owner. Only one process may use it at a time,
	// and its owner never changes. PodLogsDir has the container logs; empty means /var/log/kubelet-core/Owner.
	RootDir, PodLogsDir string
	// LeaveNothing makes Run remove everything of this owner at its end, even running pods, and RootDir. RootDir must
	// be this owner's already, or empty. See Kubelet.Empty for an orderly end.
	LeaveNothing bool
	// ClaimsDir is the directory of claims (persistentVolumeClaim) of static pods, which outlive pods and kubelets.
	// Empty means /var/lib/kubelet-core/claims, for all owners.
	ClaimsDir string
	// DevicePluginsDir is the directory where device plugins register. Plugins use /var/lib/kubelet/device-plugins.
	// Empty means no device plugins.
	DevicePluginsDir string
	// CPUManagerPolicy says whether containers of guaranteed pods get exclusive CPUs; empty means no. ReservedCPUs is a
	// list of CPUs, such as 0-1, that never become exclusive. Their number replaces the CPU amount in Cluster.Reserved.
	// If the list is empty, as many CPUs are chosen as Cluster.Reserved has.
	CPUManagerPolicy cpumanager.Policy
	ReservedCPUs     string
	reservedCPUs     cpuset.CPUSet
	// BesideKubelet lets the kubelet core start although a kubelet seems to run on this machine. If that kubelet uses
	// the same runtime, it kills the kubelet core's pods.
	BesideKubelet bool
	// CgroupRoot is the parent of the pods' cgroups, as a path. Empty means kubelet-core/Owner, which no kubelet and no
	// other core uses.
	CgroupRoot string
	// CgroupDriver is cgroupfs or systemd, for a runtime that does not report its driver: containerd 1.6 has no
	// RuntimeConfig. Empty leaves the cgroups to such a runtime.
	CgroupDriver cgroup.Driver
	// ReadAddress is the loopback address of the read-only endpoint; empty means none.
	ReadAddress string

	// ClusterDNS, ClusterDomain and ResolvConf are for pods' resolv.conf, see podspec.Options.
	ClusterDNS    []string
	ClusterDomain string
	ResolvConf    string
	// SeccompDefault is as in podspec.Options, AllowedUnsafeSysctls as in admission.Options.
	SeccompDefault       bool
	AllowedUnsafeSysctls []string
	// SwapBehavior says how much swap containers have; empty means none.
	SwapBehavior podspec.SwapBehavior

	// CrashBackoff is the pause before an ended container restarts. PullBackoff is the pause after a failed pull.
	CrashBackoff, PullBackoff backoff.Options
	// ParallelPulls is how many images are pulled at once; zero means one.
	ParallelPulls int
	// ImageVerification and ImageAllowlist say which present images a pod may use without another pull, see
	// imagemanager.CheckVerification.
	ImageVerification imagemanager.Verification
	ImageAllowlist    []string

	// PodPids is the limit of processes and threads of a pod; 0 means no limit.
	PodPids int64

	// SyncTick is how often due pods are looked for; zero means a second. Resync is the period of syncs without a
	// change; zero means a minute. Retry is the longest pause after an error; zero means ten seconds.
	SyncTick, Resync, Retry time.Duration
	// Housekeeping is the period of housekeeping; zero means two seconds.
	Housekeeping time.Duration
	// Relist is how often the runtime's pods are listed; zero means a second. NoEvents turns the runtime's event stream
	// off.
	Relist   time.Duration
	NoEvents bool
	// runtimeCheck is how often the runtime's Status is called; zero means five seconds.
	runtimeCheck time.Duration

	// GC configures garbage collection. Without a cluster no images are removed, unless HighPercent is set. Logs
	// configures log rotation.
	GC   housekeeping.GCOptions
	Logs housekeeping.LogOptions

	// Eviction has the thresholds below which pods are evicted. A nil list of hard thresholds means the kubelet's
	// defaults, an empty one none. EvictionMaxPodGrace bounds the grace period of pods that are evicted for a soft
	// threshold, in seconds. PressureTransition is how long the node's conditions show pressure after it ended; zero
	// means five minutes.
	Eviction            eviction.Settings
	EvictionMaxPodGrace int64
	PressureTransition  time.Duration
	thresholds          eviction.Thresholds

	// Shutdown says how long logind delays a shutdown of the machine while pods end. The zero value does not delay it.
	Shutdown        nodeshutdown.Settings
	shutdownPeriods []nodeshutdown.Period
}

// ClusterOptions configure the node of a cluster. Zero values mean the kubelet's defaults.
type ClusterOptions struct {
	// Kubeconfig is the file with the API server and this node's credentials; empty means no cluster.
	Kubeconfig string
	// Labels and Taints are the labels and taints of a new node.
	Labels map[string]string
	Taints []v1.Taint
	// MaxPods is how many pods the node runs; zero means 110. Reserved is not allocatable, and the cgroup of all pods
	// is limited to the rest. Reserved works without a cluster, too.
	MaxPods  int
	Reserved v1.ResourceList
	// StatusEvery is how often the node's status is computed; zero means ten seconds.
	StatusEvery time.Duration
}

// APIOptions configure the kubelet's API, see package nodeapi.
type APIOptions struct {
	// Address and Port are the listening address. An empty Address means all addresses, port 0 means no API.
	Address string
	Port    int32
	// CertFile and KeyFile are the serving certificate and its key. Without them, a pair is made in CertDir; empty
	// means RootDir/pki.
	CertFile, KeyFile, CertDir string
	// ClientCAFile has the CA certificates of clients. It is required.
	ClientCAFile string
	// Users and Groups may use the API. Without any, the API server of the cluster decides.
	Users, Groups []string
}

func (o *APIOptions) check(cluster bool) error {
	switch {
	case o.Port == 0:
		return nil
	case o.ClientCAFile == "":
		return errors.New("the API on a port other than 0 needs a client CA file: " +
			"without one, no client could be authenticated")
	case !cluster && len(o.Users)+len(o.Groups) == 0:
		return errors.New("the API on a port other than 0 needs users or groups that may use it, or a kubeconfig")
	case slices.Contains(o.Users, "") || slices.Contains(o.Groups, ""):
		return errors.New("the users and groups that may use the API need names: one is empty")
	default:
		return nil
	}
}

// Completed returns the options with their defaults, and the error that New has for them. It needs no runtime.
func (o Options) Completed() (Options, error) {
	err := o.complete()
	return o, err
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
	o.Owner = cmp.Or(o.Owner, o.NodeName)
	if problems := validation.IsValidLabelValue(o.Owner); len(problems) > 0 {
		return fmt.Errorf("the owner %q: %s", o.Owner, strings.Join(problems, "; "))
	}
	o.CgroupRoot = cmp.Or(o.CgroupRoot, "kubelet-core/"+o.Owner)
	// Cgroups of unknown pods below the root are removed. A kubelet has its pods' cgroups directly below the machine's
	// root.
	if o.CgroupRoot = path.Join("/", o.CgroupRoot); o.CgroupRoot == "/" {
		return errors.New("the cgroup root is /, where a kubelet has the cgroups of its pods: give another one")
	}
	o.RootDir = cmp.Or(o.RootDir, filepath.Join("/var/lib/kubelet-core", o.Owner))
	o.ClaimsDir = cmp.Or(o.ClaimsDir, "/var/lib/kubelet-core/claims")
	o.PodLogsDir = cmp.Or(o.PodLogsDir, filepath.Join("/var/log/kubelet-core", o.Owner))
	if o.Cluster.Kubeconfig == "" {
		o.GC.HighPercent = cmp.Or(o.GC.HighPercent, 100) // the images belong to the machine's users
	}
	if err := errors.Join(o.GC.Check(), o.reserveCPUs()); err != nil {
		return err
	}
	o.SyncTick = cmp.Or(o.SyncTick, time.Second)
	o.Resync = cmp.Or(o.Resync, time.Minute)
	o.Retry = cmp.Or(o.Retry, 10*time.Second)
	o.Housekeeping = cmp.Or(o.Housekeeping, 2*time.Second)
	o.runtimeCheck = cmp.Or(o.runtimeCheck, 5*time.Second)
	if o.nodeIPs == nil {
		o.nodeIPs = newNodeAddresses(o.NodeIPs)
		o.NodeIPs = o.nodeIPs.list()
	}
	if err := checkNodeIPs(o.NodeIPs); err != nil {
		return err
	}
	if o.Eviction.Hard == nil {
		o.Eviction.Hard = eviction.DefaultThresholds()
	}
	var err error
	if o.thresholds, err = eviction.Parse(o.Eviction); err != nil {
		return fmt.Errorf("eviction: %w", err)
	}
	if err := imagemanager.CheckVerification(o.ImageVerification, o.ImageAllowlist); err != nil {
		return fmt.Errorf("verification of image credentials: %w", err)
	}
	if o.EvictionMaxPodGrace < 0 {
		return fmt.Errorf("the longest grace period of evicted pods, %d seconds, is negative", o.EvictionMaxPodGrace)
	}
	if o.shutdownPeriods, err = o.Shutdown.Periods(); err != nil {
		return err
	}
	if err := o.API.check(o.Cluster.Kubeconfig != ""); err != nil {
		return err
	}
	o.API.CertDir = cmp.Or(o.API.CertDir, filepath.Join(o.RootDir, "pki"))
	for _, path := range []*string{&o.RootDir, &o.PodLogsDir, &o.ClaimsDir, &o.Manifests, &o.API.CertDir} {
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNodeIPs refuses addresses that the API server would refuse in the status of each pod.
func checkNodeIPs(ips []string) error {
	for _, ip := range ips {
		if _, err := netip.ParseAddr(ip); err != nil {
			return fmt.Errorf("the node's address %q: %w", ip, err)
		}
	}
	if len(model.PodAddresses(ips, "")) != len(ips) {
		return fmt.Errorf("the node's addresses %s: want one, or one of each IP family", strings.Join(ips, ", "))
	}
	return nil
}

// reserveCPUs checks the policy and the list of reserved CPUs.
func (o *Options) reserveCPUs() (err error) {
	policies := []cpumanager.Policy{"", cpumanager.None, cpumanager.Static}
	if !slices.Contains(policies, o.CPUManagerPolicy) {
		return fmt.Errorf("the CPU manager's policy %q is neither %s nor %s", o.CPUManagerPolicy, cpumanager.None,
			cpumanager.Static)
	}
	if o.reservedCPUs, err = cpuset.Parse(o.ReservedCPUs); err != nil {
		return fmt.Errorf("the reserved CPUs %q: %w", o.ReservedCPUs, err)
	}
	if n := o.reservedCPUs.Size(); n > 0 {
		reserved := v1.ResourceList{}
		maps.Copy(reserved, o.Cluster.Reserved)
		reserved[v1.ResourceCPU] = *resource.NewQuantity(int64(n), resource.DecimalSI)
		o.Cluster.Reserved = reserved
	}
	return nil
}

// allocatable returns the part of a capacity that is not reserved. It returns an error if nothing is left, because an
// amount of zero would mean no limit.
func allocatable(capacity, reserved v1.ResourceList) (v1.ResourceList, error) {
	left := v1.ResourceList{}
	for name, whole := range capacity {
		amount, kept := whole.DeepCopy(), reserved[name]
		amount.Sub(kept)
		switch {
		case amount.Sign() > 0:
			left[name] = amount
		case kept.Sign() > 0:
			return nil, fmt.Errorf("reserved %s of %s leaves nothing of %s for pods",
				kept.String(), name, whole.String())
		}
	}
	return left, nil
}

// checkSlices refuses names with underscores. The name of a slice has underscores instead of dashes, so two roots could
// get the same slice.
func checkSlices(driver cgroup.Driver, root string) error {
	if driver == cgroup.Systemd && strings.Contains(root, "_") {
		return fmt.Errorf("the cgroup root %s has an underscore, which stands for a dash in names of slices: "+
			"give an --owner (for play: a --name) without underscores", root)
	}
	return nil
}

// credentialFiles returns the paths of Docker configuration files with credentials, as in the kubelet. systemd sets no
// HOME for a service without User, so the directory then comes from the database of users.
func credentialFiles(rootDir string) []string {
	files := []string{filepath.Join(rootDir, "config.json")}
	home := os.Getenv("HOME")
	if home == "" {
		if own, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
			home = own.HomeDir
		}
	}
	if home != "" {
		files = append(files, filepath.Join(home, ".docker", "config.json"))
	}
	return files
}
