package config

import (
	"github.com/spf13/pflag"
)

// flagCriDockerdRoot is cri-dockerd's name of --root-directory.
const flagCriDockerdRoot = "cri-dockerd-root-directory"

// AddFlags registers the flags with c's values as defaults. A flag with a counterpart in cri-dockerd has its name, so
// that a node's unit file only needs another program name.
func (c *Config) AddFlags(flags *pflag.FlagSet) {
	flags.String(flagConfig, "",
		"YAML file with these settings by their flags' names; the command line and the environment "+
			"(CRIADAPTER_LOG_LEVEL for --log-level) override it "+
			"(default: "+defaultFile+" if it exists)")
	flags.StringVar(&c.Endpoint, "container-runtime-endpoint", c.Endpoint,
		"unix socket to serve CRI on, or fd:// for the socket of a systemd unit; "+
			"the kubelet's flag of the same name and crictl's --runtime-endpoint must agree")
	flags.StringVar(&c.DockerEndpoint, "docker-endpoint", c.DockerEndpoint,
		"unix socket of the local Docker Engine (20.10 or later)")
	flags.StringVar(&c.RootDirectory, "root-directory", c.RootDirectory,
		"directory of data that must survive a restart")
	flags.StringVar(&c.RootDirectory, flagCriDockerdRoot, c.RootDirectory, "the same as --root-directory")
	flags.StringVar(&c.NetworkPlugin, "network-plugin", c.NetworkPlugin,
		"network of the pods: cni (CNI plugins) or bridge (Docker's default bridge)")
	flags.StringVar(&c.CNIConfDir, "cni-conf-dir", c.CNIConfDir,
		"directory of CNI configurations; the first valid one in lexical order is used, changes take effect without "+
			"a restart")
	flags.StringVar(&c.CNIBinDir, "cni-bin-dir", c.CNIBinDir, "comma-separated directories of CNI plugins")
	flags.StringVar(&c.CNICacheDir, "cni-cache-dir", c.CNICacheDir,
		"directory for CNI results (default: cni below the root directory)")
	flags.BoolVar(&c.CNIGC, "cni-gc", c.CNIGC,
		"let CNI plugins (version 1.1) remove leases that belong to no pod of this program, at its start and every "+
			"ten minutes; set it only if no other program uses the same CNI network")
	c.addMigrateFlags(flags)
	flags.StringVar(&c.SandboxImage, "pod-infra-container-image", c.SandboxImage,
		"image of the pods' sandboxes, pulled if missing (default: built in, without a pull)")
	flags.StringVar(&c.OCIRuntime, "oci-runtime", c.OCIRuntime,
		"use the engine's runtime criadapter-oci for settings that the Docker API lacks: auto (if the engine has it "+
			"and it works), off or required")
	flags.StringVar(&c.RuntimeAnnotations, "runtime-annotations", c.RuntimeAnnotations,
		"comma-separated patterns, such as vendor.com/*; the OCI runtime gets the annotations of pods and containers "+
			"that match one; some annotations change what runc and other runtimes do (default: none)")
	flags.BoolVar(&c.ExecThroughEngine, "exec-through-engine", c.ExecThroughEngine,
		"run all commands in containers (exec, probes, hooks) and send stop signals through the engine; by default "+
			"criadapter runs commands with runc itself where runc confines them as the engine does, and signals the "+
			"process itself")
	flags.StringVar(&c.SandboxContainer, "sandbox-container", c.SandboxContainer,
		"which new pods get a sandbox container: always (each pod), or needed (if criadapter-oci works, only pods "+
			"that need one, such as pods with a shared PID namespace)")
	c.addNRIFlags(flags)
	flags.Var(&c.ImagePullProgressDeadline, "image-pull-progress-deadline",
		"cancel a pull after this time without progress; the limit is sixty times as long while the engine queues "+
			"the layers behind other pulls, or unpacks them silently")
	flags.StringVar(&c.ImagePolicy, "image-policy", c.ImagePolicy,
		"YAML file that says which images may be pulled and run: accepted, rejected or signed by a key, by "+
			"repository; read at each pull and each new container (default: all images)")
	flags.Var(&c.RuntimeRequestTimeout, "runtime-request-timeout",
		"timeout of a request whose client set no deadline, and of a CNI ADD; a CNI DEL has half of that time; pulls, "+
			"stops and execs have timeouts of their own")
	flags.StringVar(&c.StreamingBindAddr, "streaming-bind-addr", c.StreamingBindAddr,
		"address for exec, attach and port-forward; port 0, or an IP address without a port, for a free port")
	flags.StringVar(&c.StreamingTLSCertFile, "streaming-tls-cert-file", c.StreamingTLSCertFile,
		"PEM certificate for exec, attach and port-forward over TLS; read again after a renewal")
	flags.StringVar(&c.StreamingTLSKeyFile, "streaming-tls-private-key-file", c.StreamingTLSKeyFile,
		"PEM key of --streaming-tls-cert-file")
	flags.BoolVar(&c.StreamingAllowPlaintext, "streaming-allow-plaintext", c.StreamingAllowPlaintext,
		"allow a --streaming-bind-addr other than loopback without TLS")
	flags.Var(&c.StreamingIdleTimeout, "streaming-connection-idle-timeout",
		"end an exec, attach or port-forward session after this time without traffic")
	flags.StringVar(&c.CRIMetrics, "cri-metrics", c.CRIMetrics,
		"comma-separated groups of container metrics to collect for the kubelet's /metrics/cadvisor, or all, or none")
	flags.StringVar(&c.ContainerLogMode, "container-log-mode", c.ContainerLogMode,
		"log of a new container at the kubelet's path: copy (in the CRI format) or symlink (the engine's own "+
			"json-file)")
	flags.StringVar(&c.ContainerLogBufferSize, "container-log-buffer-size", c.ContainerLogBufferSize,
		"largest size of the engine's own log of a new container, which exists beside the copy; a quantity in bytes; "+
			"a container can write two thirds of it while this program is away; the kubelet does not count it as "+
			"ephemeral storage")
	flags.StringVar(&c.LogLevel, "log-level", c.LogLevel, "panic, fatal, error, warn, info, debug or trace")
	flags.StringVar(&c.LogFormat, "log-format", c.LogFormat, "text or json")
	c.addObserveFlags(flags)
	addIdleFlags(flags)
}
