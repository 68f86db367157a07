package docker

// Features is what the engine of one connection is and can do. It is
// immutable: a new connection gets a new value.
type Features struct {
	// ServerVersion is the engine's own version, "20.10.24".
	ServerVersion string
	// APIVersion is the negotiated API version, "1.41".
	APIVersion string
	// OS and Arch are the engine's platform in GOOS and GOARCH terms.
	OS, Arch string
	// CgroupVersion is 1 or 2.
	CgroupVersion int
	// CgroupDriver is "cgroupfs", "systemd" or "none".
	CgroupDriver string
	// StorageDriver is the driver of container layers, "overlay2" or, with the
	// containerd image store, the snapshotter.
	StorageDriver string
	// ContainerdImageStore says whether images live in containerd, whose image
	// ids are manifest digests instead of config digests.
	ContainerdImageStore bool
	// Root is the engine's data folder, "/var/lib/docker".
	Root string
	// Runtimes are the names of the OCI runtimes, in lexical order.
	Runtimes []string
	// DefaultRuntime is the runtime of containers that name none.
	DefaultRuntime string
	LiveRestore    bool
	// Seccomp, AppArmor, SELinux, UserNSRemap and Rootless repeat the engine's
	// security options.
	Seccomp, AppArmor, SELinux, UserNSRemap, Rootless bool
	// SwapLimit says whether the engine can limit swap.
	SwapLimit bool
	// NegativeOOMScore says whether containers can get a negative
	// oom_score_adj. It is false when the engine lacks CAP_SYS_RESOURCE.
	NegativeOOMScore bool
	// Limits are the resource limits of the engine's own process, in lexical
	// order of their names: what its containers inherit. Without
	// CAP_SYS_RESOURCE no container can get a higher hard limit.
	Limits []Limit
}

// Supports reports whether the negotiated API version is at least the given
// one ("1.44"). It compares the numbers, not the text.
func (f Features) Supports(apiVersion string) bool {
	return !versionLess(f.APIVersion, apiVersion)
}
