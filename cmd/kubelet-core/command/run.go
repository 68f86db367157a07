package command

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/criadapter/criadapter/cmd/kubelet-core/configfile"
	"github.com/criadapter/criadapter/kubelet"
	"github.com/criadapter/criadapter/kubelet/eviction"
)

// runCommand makes the command run, which runs the kubelet.
func runCommand() *cobra.Command {
	var run runFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the pods of a directory, of a URL or of a cluster",
		Long: `run runs the pods of a directory, of a URL or of a cluster. When it ends, its pods run on.

A configuration file has the kind KubeletConfiguration, as for a kubelet. A flag overrides the file. A field that
kubelet-core does not have is refused, unless it has the kubelet's default.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := run.load(cmd.Flags()); err != nil {
				return err
			}
			if err := setUpLog(run.level); err != nil {
				return err
			}
			return serve(cmd.Context(), &run)
		},
	}
	run.add(cmd.Flags())
	return cmd
}

// serve runs the kubelet until ctx ends.
func serve(ctx context.Context, run *runFlags) error {
	systemd := supervise(ctx, run.opts.RuntimeEndpoint)
	defer systemd.end(ctx)
	defer surviveSignals(ctx, func(ctx context.Context) { run.reload(ctx, systemd.status) })()
	k, err := kubelet.New(ctx, run.opts)
	if err != nil {
		return err
	}
	systemd.running(k)
	return k.Run(ctx)
}

// runFlags are the settings of a kubelet: the flags, and the configuration file that they override.
type runFlags struct {
	opts  kubelet.Options
	node  nodeFlags
	level string
	// config is the path of the configuration file.
	config string
	// file has the settings in the configuration file, and given has the flags on the command line.
	file  []configfile.Setting
	given map[string]bool
}

// add defines the flags.
func (r *runFlags) add(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&r.config, "config", defaultConfig,
		"a `file` of the kind KubeletConfiguration; the default file need not exist")
	addSourceFlags(flags, &r.opts, &r.node)
	addPodFlags(flags, &r.opts)
	addPaceFlags(flags, &r.opts)
	addDiskFlags(flags, &r.opts)
	addShutdownAndLogFlags(flags, &r.opts)
	flags.StringVar(&r.level, "log-level", "info", "error, warn, info, debug, trace")
}

// load reads the configuration file and completes opts.
func (r *runFlags) load(flags *pflag.FlagSet) error {
	if err := r.readFile(flags); err != nil {
		return err
	}
	return r.node.complete(flags, &r.opts)
}

// addSourceFlags adds the flags for the sources of pods, the runtime and the kubelet's own directories and names.
func addSourceFlags(flags *pflag.FlagSet, opts *kubelet.Options, node *nodeFlags) {
	flags.StringVar(&opts.Manifests, "manifests", "/etc/kubelet-core/manifests", "the `directory` of pod manifests")
	node.add(flags, opts)
	flags.StringVar(&opts.RuntimeEndpoint, "container-runtime-endpoint", "unix:///run/criadapter/criadapter.sock",
		"the CRI `socket`")
	flags.StringVar(&opts.ImageEndpoint, "image-service-endpoint", "",
		"the `socket` of the CRI image service (default: --container-runtime-endpoint)")
	flags.DurationVar(&opts.RuntimeTimeout, "runtime-request-timeout", 0, "the limit of one CRI call (default 2m)")
	flags.StringVar(&opts.NodeName, "hostname-override", "", "this node's `name` (default: the machine's)")
	flags.StringSliceVar(&opts.NodeIPs, "node-ip", nil,
		"this node's `addresses` (default: the addresses of its default route)")
	flags.StringVar(&opts.Owner, "owner", "",
		"the `name` in the label of its pods; kubelet-core ignores all other pods (default: the node's name)")
	flags.StringVar(&opts.RootDir, "root-dir", "",
		"the `directory` for volumes, checkpoints and certificates; one process and one owner can use it "+
			"(default /var/lib/kubelet-core/OWNER)")
	flags.StringVar(&opts.PodLogsDir, "pod-logs-dir", "",
		"the `directory` of container logs (default /var/log/kubelet-core/OWNER)")
	flags.StringVar(&opts.ClaimsDir, "claims-dir", "",
		"the `directory` of persistentVolumeClaims, as NAMESPACE/CLAIM (default /var/lib/kubelet-core/claims)")
	flags.StringVar(&opts.DevicePluginsDir, "device-plugins-dir", "",
		"the `directory` where device plugins register; they expect /var/lib/kubelet/device-plugins (default: no "+
			"device plugins)")
	flags.BoolVar(&opts.BesideKubelet, "beside-kubelet", false,
		"start although a kubelet seems to run on this machine; a kubelet on the same runtime kills the pods")
	flags.StringVar(&opts.CgroupRoot, "cgroup-root", "",
		"the parent `cgroup` of the pods' cgroups (default kubelet-core/OWNER)")
	flags.StringVar((*string)(&opts.CgroupDriver), "cgroup-driver", "",
		"the cgroup `driver` for a runtime that does not report its own: cgroupfs or systemd (default: the "+
			"runtime makes the cgroups)")
	flags.StringVar(&opts.ReadAddress, "read-address", defaultReadAddress,
		"the loopback `address` of the read-only endpoint; empty for none")
}

// addPodFlags adds the flags for DNS, process limits, seccomp and sysctls of pods.
func addPodFlags(flags *pflag.FlagSet, opts *kubelet.Options) {
	flags.StringSliceVar(&opts.ClusterDNS, "cluster-dns", nil, "name `servers` for pods with dnsPolicy ClusterFirst")
	flags.StringVar(&opts.ClusterDomain, "cluster-domain", "",
		"the cluster's `domain`, for the search list of pods with dnsPolicy ClusterFirst")
	flags.StringVar(&opts.ResolvConf, "resolv-conf", "",
		"the resolv.conf `file` for dnsPolicy Default (default /etc/resolv.conf)")
	flags.Int64Var(&opts.PodPids, "pod-max-pids", 0,
		"how many `processes` and threads a pod may have (default: no limit)")
	flags.BoolVar(&opts.SeccompDefault, "seccomp-default", false,
		"use the runtime's seccomp profile for containers without one")
	flags.StringSliceVar(&opts.AllowedUnsafeSysctls, "allowed-unsafe-sysctls", nil,
		"`names` of unsafe sysctls that pods may set, or prefixes that end in *")
	flags.StringVar((*string)(&opts.CPUManagerPolicy), "cpu-manager-policy", "",
		"none, or static: containers of guaranteed pods that request whole CPUs get exclusive CPUs (default none)")
	flags.StringVar(&opts.ReservedCPUs, "reserved-cpus", "",
		"`CPUs` that no container gets exclusively, such as 0-1, instead of the CPUs of --system-reserved")
	flags.StringVar((*string)(&opts.SwapBehavior), "memory-swap-behavior", "",
		"NoSwap, or LimitedSwap for swap in proportion to memory requests; that needs cgroup v2 (default NoSwap)")
	flags.StringVar((*string)(&opts.ImageVerification), "image-pull-credentials-verification-policy", "",
		"which present images a pod may use without the credentials of their pull: NeverVerify, "+
			"NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages or AlwaysVerify "+
			"(default NeverVerifyPreloadedImages)")
	flags.StringSliceVar(&opts.ImageAllowlist, "preloaded-images-verification-allowlist", nil,
		"`names` of preloaded images for NeverVerifyAllowlistedImages, without tags, or prefixes that end in /*")
}

// addPaceFlags adds the flags for back-offs and periods.
func addPaceFlags(flags *pflag.FlagSet, opts *kubelet.Options) {
	flags.DurationVar(&opts.CrashBackoff.First, "crash-backoff", 0,
		"the back-off before the second restart of a container; it doubles (default 10s)")
	flags.DurationVar(&opts.CrashBackoff.Max, "crash-backoff-max", 0,
		"the longest back-off before a restart of a container (default 5m)")
	flags.DurationVar(&opts.PullBackoff.First, "pull-backoff", 0,
		"the back-off after a failed pull; it doubles (default 10s)")
	flags.DurationVar(&opts.PullBackoff.Max, "pull-backoff-max", 0,
		"the longest back-off after a failed pull (default 5m)")
	flags.IntVar(&opts.ParallelPulls, "parallel-pulls", 0, "how many images are pulled at once (default 1)")
	flags.DurationVar(&opts.Resync, "sync-frequency", 0, "how often a pod is synced without a change (default 1m)")
	flags.DurationVar(&opts.Retry, "retry", 0,
		"the longest back-off after a failed sync; the first is half a second (default 10s)")
	flags.DurationVar(&opts.SyncTick, "sync-tick", 0,
		"how often to look for pods that are due for a sync (default 1s)")
	flags.DurationVar(&opts.ManifestRescan, "file-check-frequency", 0,
		"how often the manifests are read without a file event (default 20s)")
	flags.DurationVar(&opts.Housekeeping, "housekeeping", 0,
		"how often orphaned pods and directories are cleaned up (default 2s)")
	flags.DurationVar(&opts.Relist, "relist", 0, "how often the runtime's pods are listed (default 1s)")
	flags.BoolVar(&opts.NoEvents, "no-runtime-events", false, "relist only, do not use the runtime's event stream")
}

// addDiskFlags adds the flags for garbage collection and eviction.
func addDiskFlags(flags *pflag.FlagSet, opts *kubelet.Options) {
	flags.DurationVar(&opts.GC.Containers, "container-gc-period", 0,
		"how often dead containers are collected (default 1m)")
	flags.IntVar(&opts.GC.HighPercent, "image-gc-high-threshold", 0,
		"the `percentage` of the disk above which unused images are removed; 100 for never (default 85; without "+
			"--kubeconfig 100)")
	flags.BoolVar(&opts.GC.AllImages, "image-gc-all", false,
		"remove all unused images, not only images that kubelet-core pulled")
	flags.IntVar(&opts.GC.LowPercent, "image-gc-low-threshold", 0,
		"the `percentage` of the disk at which the removal of images ends (default 80)")
	flags.DurationVar(&opts.GC.ImageMinAge, "minimum-image-ttl-duration", 0,
		"the shortest time that an unused image is kept (default 2m)")
	flags.DurationVar(&opts.GC.Images, "image-gc-period", 0, "how often disk usage by images is checked (default 5m)")
	flags.StringSliceVar(&opts.Eviction.Hard, "eviction-hard", nil,
		"`thresholds` of memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, "+
			"imagefs.inodesFree and pid.available below which pods are evicted; empty for none (default "+
			strings.Join(eviction.DefaultThresholds(), ",")+")")
	flags.StringSliceVar(&opts.Eviction.Soft, "eviction-soft", nil,
		"`thresholds` of the same signals below which pods are evicted after a time")
	flags.StringToStringVar(&opts.Eviction.SoftGrace, "eviction-soft-grace-period", nil,
		"`times` of the soft thresholds, such as memory.available=1m30s")
	flags.Int64Var(&opts.EvictionMaxPodGrace, "eviction-max-pod-grace-period", 0,
		"the longest grace period, in `seconds`, of a pod that is evicted for a soft threshold")
	flags.StringToStringVar(&opts.Eviction.MinimumReclaim, "eviction-minimum-reclaim", nil,
		"`amounts` to reclaim above a threshold, such as nodefs.available=500Mi")
	flags.DurationVar(&opts.PressureTransition, "eviction-pressure-transition-period", 0,
		"how long the node's conditions show pressure after it ended (default 5m)")
}

// addShutdownAndLogFlags adds the flags for the machine's shutdown and the rotation of logs.
func addShutdownAndLogFlags(flags *pflag.FlagSet, opts *kubelet.Options) {
	flags.DurationVar(&opts.Shutdown.Grace, "shutdown-grace-period", 0,
		"how long logind delays a shutdown of the machine while pods end; 0 does not delay it")
	flags.DurationVar(&opts.Shutdown.Critical, "shutdown-grace-period-critical-pods", 0,
		"the part of --shutdown-grace-period for critical pods, which end last")
	flags.StringToStringVar(&opts.Shutdown.ByPriority, "shutdown-grace-period-by-pod-priority", nil,
		"`times` by pod priority, instead of the two flags above, such as 0=20s,100000=10s; the lowest priority "+
			"ends first")
	flags.Int64Var(&opts.Logs.MaxSize, "container-log-max-size", 0,
		"the size in `bytes` from which a log is rotated (default 10485760)")
	flags.IntVar(&opts.Logs.MaxFiles, "container-log-max-files", 0, "how many files of a log are kept (default 5)")
	flags.DurationVar(&opts.Logs.Check, "container-log-monitor-interval", 0,
		"how often log sizes are checked (default 10s)")
}
