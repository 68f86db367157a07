package configfile

import "slices"

// field is a field of KubeletConfiguration that is not a structure.
type field struct {
	// path is the field's name, with the names of the structures around it.
	path string
	kind kind
	// flag is the flag of kubelet-core with the same meaning, empty for none.
	flag string
	// convert returns the values of the flag for the field's value. Nil means that the flag and the field have the same
	// notation.
	convert func(value any) ([]string, error)
	// values are the allowed values of a field without a flag, the kubelet's default first. If there are none, the
	// field must be empty.
	values []any
	// remedy says how to do without the field. It may be empty.
	remedy string
}

// kind is the type of a field's value.
type kind string

const (
	boolean kind = "true or false"
	// count is a number. Zero means the kubelet's default.
	count kind = "a number"
	// number is a number. Zero is a value like any other.
	number   kind = "a number or zero"
	fraction kind = "a fraction"
	text     kind = "a text"
	duration kind = "a duration such as 1m30s"
	texts    kind = "a list of texts"
	pairs    kind = "a map"
	// other is any other type.
	other kind = "a structure"
)

// fields are the fields of KubeletConfiguration in the order of its type. A test compares them with the type.
func fields() []field {
	return slices.Concat(sourceFields(), clusterFields(), podFields(), evictionFields(), processFields())
}

// sourceFields are about the sources of pods, and the endpoints with their clients.
func sourceFields() []field {
	return []field{
		{path: "enableServer", kind: boolean, values: []any{true}, remedy: "use --port=0 for no server"},
		{path: "staticPodPath", kind: text, flag: "manifests"},
		{path: "podLogsDir", kind: text, flag: "pod-logs-dir"},
		{path: "syncFrequency", kind: duration, flag: "sync-frequency"},
		{path: "fileCheckFrequency", kind: duration, flag: "file-check-frequency"},
		{path: "httpCheckFrequency", kind: duration, flag: "http-check-frequency"},
		{path: "staticPodURL", kind: text, flag: "manifest-url"},
		{path: "staticPodURLHeader", kind: other, flag: "manifest-url-header", convert: headers},
		{path: "address", kind: text, flag: "address"},
		{path: "port", kind: count, flag: "port"},
		{path: "readOnlyPort", kind: count, values: []any{0.0}, remedy: "use --read-address"},
		{path: "tlsCertFile", kind: text, flag: "tls-cert-file"},
		{path: "tlsPrivateKeyFile", kind: text, flag: "tls-private-key-file"},
		{path: "tlsCipherSuites", kind: texts},
		{path: "tlsCurvePreferences", kind: other},
		{path: "tlsMinVersion", kind: text},
		{path: "rotateCertificates", kind: boolean, values: []any{false},
			remedy: "kubelet-core requests no certificates: replace the kubeconfig's certificate before it expires"},
		{path: "serverTLSBootstrap", kind: boolean, values: []any{false},
			remedy: "give tlsCertFile and tlsPrivateKeyFile"},
		{path: "authentication.x509.clientCAFile", kind: text, flag: "client-ca-file"},
		{path: "authentication.webhook.enabled", kind: boolean, values: []any{true},
			remedy: "without --kubeconfig, no token is accepted"},
		{path: "authentication.webhook.cacheTTL", kind: duration, values: []any{"2m"}},
		{path: "authentication.anonymous.enabled", kind: boolean, values: []any{false}},
		{path: "authorization.mode", kind: text, values: []any{"Webhook"},
			remedy: "use --client-users and --client-groups"},
		{path: "authorization.webhook.cacheAuthorizedTTL", kind: duration, values: []any{"5m"}},
		{path: "authorization.webhook.cacheUnauthorizedTTL", kind: duration, values: []any{"30s"}},
	}
}

// clusterFields are about requests to registries and to the API server, the node's status, and images.
func clusterFields() []field {
	return []field{
		{path: "registryPullQPS", kind: number, values: []any{5.0}},
		{path: "registryBurst", kind: count, values: []any{10.0}},
		{path: "imagePullCredentialsVerificationPolicy", kind: text,
			flag: "image-pull-credentials-verification-policy"},
		{path: "preloadedImagesVerificationAllowlist", kind: texts, flag: "preloaded-images-verification-allowlist"},
		{path: "eventRecordQPS", kind: number, values: []any{50.0}},
		{path: "eventBurst", kind: count, values: []any{100.0}},
		{path: "enableDebuggingHandlers", kind: boolean, values: []any{true}},
		{path: "enableContentionProfiling", kind: boolean, values: []any{false}},
		{path: "healthzPort", kind: number, values: []any{10248.0}, remedy: "use --read-address"},
		{path: "healthzBindAddress", kind: text, values: []any{"127.0.0.1"}, remedy: "use --read-address"},
		{path: "oomScoreAdj", kind: number, values: []any{-999.0}, remedy: "set it in the unit"},
		{path: "clusterDomain", kind: text, flag: "cluster-domain"},
		{path: "clusterDNS", kind: texts, flag: "cluster-dns"},
		{path: "streamingConnectionIdleTimeout", kind: duration, values: []any{"4h"}},
		{path: "nodeStatusUpdateFrequency", kind: duration, flag: "node-status-update-frequency"},
		{path: "nodeStatusReportFrequency", kind: duration, values: []any{"5m"}},
		{path: "nodeLeaseDurationSeconds", kind: count, values: []any{40.0}},
		{path: "imageMinimumGCAge", kind: duration, flag: "minimum-image-ttl-duration"},
		{path: "imageMaximumGCAge", kind: duration},
		{path: "imageGCHighThresholdPercent", kind: number, flag: "image-gc-high-threshold"},
		{path: "imageGCLowThresholdPercent", kind: number, flag: "image-gc-low-threshold"},
		{path: "volumeStatsAggPeriod", kind: duration, values: []any{"1m"}},
	}
}

// podFields are about cgroups, the choice of CPUs and memory, and containers.
func podFields() []field {
	return []field{
		{path: "kubeletCgroups", kind: text, remedy: "set Slice= in the unit"},
		{path: "systemCgroups", kind: text},
		{path: "cgroupRoot", kind: text, flag: "cgroup-root"},
		{path: "cgroupsPerQOS", kind: boolean, values: []any{true}},
		{path: "cgroupDriver", kind: text, flag: "cgroup-driver"},
		{path: "cpuManagerPolicy", kind: text, flag: "cpu-manager-policy"},
		{path: "singleProcessOOMKill", kind: boolean, values: []any{false}},
		{path: "cpuManagerPolicyOptions", kind: pairs},
		{path: "cpuManagerReconcilePeriod", kind: duration, values: []any{"10s"}},
		{path: "memoryManagerPolicy", kind: text, values: []any{"None"}},
		{path: "topologyManagerPolicy", kind: text, values: []any{"none"}},
		{path: "topologyManagerScope", kind: text, values: []any{"container"}},
		{path: "topologyManagerPolicyOptions", kind: pairs},
		{path: "qosReserved", kind: pairs},
		{path: "runtimeRequestTimeout", kind: duration, flag: "runtime-request-timeout"},
		{path: "hairpinMode", kind: text, values: []any{"promiscuous-bridge"}, remedy: "the CNI plugin decides"},
		{path: "maxPods", kind: count, flag: "max-pods"},
		{path: "podCIDR", kind: text},
		{path: "podPidsLimit", kind: number, flag: "pod-max-pids", convert: pidsLimit},
		{path: "resolvConf", kind: text, flag: "resolv-conf"},
		{path: "runOnce", kind: boolean, values: []any{false}, remedy: "use kubelet-core play"},
		{path: "cpuCFSQuota", kind: boolean, values: []any{true}},
		{path: "cpuCFSQuotaPeriod", kind: duration, values: []any{"100ms"}},
		{path: "nodeStatusMaxImages", kind: number, values: []any{50.0}},
		{path: "maxOpenFiles", kind: count, values: []any{1000000.0}, remedy: "set LimitNOFILE= in the unit"},
		{path: "contentType", kind: text, values: []any{"application/vnd.kubernetes.protobuf"}},
		{path: "kubeAPIQPS", kind: number, values: []any{50.0}},
		{path: "kubeAPIBurst", kind: count, values: []any{100.0}},
		{path: "serializeImagePulls", kind: boolean, flag: "parallel-pulls", convert: serialPulls},
		{path: "maxParallelImagePulls", kind: number, flag: "parallel-pulls"},
	}
}

// evictionFields are about evictions, swap, the logs of containers, and reserved resources.
func evictionFields() []field {
	return []field{
		{path: "evictionHard", kind: pairs, flag: "eviction-hard", convert: thresholds},
		{path: "evictionSoft", kind: pairs, flag: "eviction-soft", convert: thresholds},
		{path: "evictionSoftGracePeriod", kind: pairs, flag: "eviction-soft-grace-period"},
		{path: "evictionPressureTransitionPeriod", kind: duration, flag: "eviction-pressure-transition-period"},
		{path: "evictionMaxPodGracePeriod", kind: count, flag: "eviction-max-pod-grace-period"},
		{path: "evictionMinimumReclaim", kind: pairs, flag: "eviction-minimum-reclaim"},
		{path: "mergeDefaultEvictionSettings", kind: boolean, values: []any{false},
			remedy: "list all thresholds in evictionHard"},
		{path: "podsPerCore", kind: count, values: []any{0.0}},
		{path: "enableControllerAttachDetach", kind: boolean, values: []any{true}},
		{path: "protectKernelDefaults", kind: boolean, values: []any{false}},
		{path: "makeIPTablesUtilChains", kind: boolean, values: []any{true, false}},
		{path: "iptablesMasqueradeBit", kind: number, values: []any{14.0}},
		{path: "iptablesDropBit", kind: number, values: []any{15.0}},
		{path: "featureGates", kind: pairs},
		{path: "failSwapOn", kind: boolean, values: []any{true, false}}, // the kubelet core works with swap
		{path: "memorySwap.swapBehavior", kind: text, flag: "memory-swap-behavior"},
		{path: "containerLogMaxSize", kind: text, flag: "container-log-max-size", convert: bytes},
		{path: "containerLogMaxFiles", kind: number, flag: "container-log-max-files"},
		{path: "containerLogMaxWorkers", kind: number, values: []any{1.0}},
		{path: "containerLogMonitorInterval", kind: duration, flag: "container-log-monitor-interval"},
		{path: "configMapAndSecretChangeDetectionStrategy", kind: text, values: []any{"Watch"}},
		{path: "systemReserved", kind: pairs, flag: "system-reserved"},
		{path: "kubeReserved", kind: pairs, flag: "system-reserved"},
		{path: "reservedSystemCPUs", kind: text, flag: "reserved-cpus"},
		{path: "showHiddenMetricsForVersion", kind: text},
		{path: "systemReservedCgroup", kind: text},
		{path: "kubeReservedCgroup", kind: text},
		{path: "enforceNodeAllocatable", kind: texts, values: []any{"pods"}},
		{path: "allowedUnsafeSysctls", kind: texts, flag: "allowed-unsafe-sysctls"},
		{path: "defaultPodSysctls", kind: pairs},
		{path: "volumePluginDir", kind: text, values: []any{"/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"}},
		{path: "providerID", kind: text},
		{path: "kernelMemcgNotification", kind: boolean, values: []any{false}},
	}
}

// processFields are about the log of the kubelet, the shutdown of the node, and the registration.
func processFields() []field {
	return []field{
		{path: "logging.format", kind: text, values: []any{"text"}},
		{path: "logging.flushFrequency", kind: other, values: []any{0.0, 5e9, "5s", "0s"}},
		{path: "logging.verbosity", kind: count, flag: "log-level", convert: logLevel},
		{path: "logging.vmodule", kind: other},
		{path: "logging.options.text.splitStream", kind: boolean, values: []any{false}},
		{path: "logging.options.text.infoBufferSize", kind: text, values: []any{"0"}},
		{path: "logging.options.json.splitStream", kind: boolean, values: []any{false}},
		{path: "logging.options.json.infoBufferSize", kind: text, values: []any{"0"}},
		{path: "enableSystemLogHandler", kind: boolean, values: []any{true}},
		{path: "enableSystemLogQuery", kind: boolean, values: []any{false}},
		{path: "shutdownGracePeriod", kind: duration, flag: "shutdown-grace-period"},
		{path: "shutdownGracePeriodCriticalPods", kind: duration, flag: "shutdown-grace-period-critical-pods"},
		{path: "shutdownGracePeriodByPodPriority", kind: other, flag: "shutdown-grace-period-by-pod-priority",
			convert: shutdownPeriods},
		{path: "crashLoopBackOff.maxContainerRestartPeriod", kind: duration, flag: "crash-backoff-max"},
		{path: "reservedMemory", kind: other},
		{path: "enableProfilingHandler", kind: boolean, values: []any{true}},
		{path: "enableDebugFlagsHandler", kind: boolean, values: []any{true}},
		{path: "seccompDefault", kind: boolean, flag: "seccomp-default"},
		{path: "memoryThrottlingFactor", kind: fraction, values: []any{0.9}},
		{path: "memoryReservationPolicy", kind: text, values: []any{"None"}},
		{path: "registerWithTaints", kind: other, flag: "register-with-taints", convert: taints},
		{path: "registerNode", kind: boolean, values: []any{true}, remedy: "leave --kubeconfig out"},
		{path: "tracing", kind: other},
		{path: "localStorageCapacityIsolation", kind: boolean, values: []any{true}},
		{path: "containerRuntimeEndpoint", kind: text, flag: "container-runtime-endpoint"},
		{path: "imageServiceEndpoint", kind: text, flag: "image-service-endpoint"},
		{path: "failCgroupV1", kind: boolean, values: []any{true, false}}, // the kubelet core works with cgroup v1
		{path: "userNamespaces.idsPerPod", kind: number, values: []any{65536.0}},
	}
}
