package main

import "strings"

// globalValued holds the flags before the verb that take a value. runc 1.1 to 1.5 and crun up to 1.29 share one command
// line. Any other flag has no value.
var globalValued = names("criadapter-notes root log log-format log-level criu rootless cgroup-manager")

// valued holds the flags of each verb that take a value in runc or crun. A flag that runc and crun share takes a value
// in both or in neither.
var valued = map[string]map[string]bool{
	"checkpoint": names("image-path work-path parent-path status-fd page-server manage-cgroups-mode empty-ns"),
	"create":     names("bundle b config f console-socket pidfd-socket pid-file preserve-fds"),
	"events":     names("interval"),
	"exec": names(
		"console-socket pidfd-socket cwd env e user u additional-gids g process p pid-file process-label apparmor " +
			"cap c preserve-fds cgroup"),
	"kill": names("pid"), // runsc's
	"list": names("format f"),
	"ps":   names("format f"),
	"restore": names("bundle b console-socket image-path work-path manage-cgroups-mode pid-file empty-ns lsm-profile " +
		"lsm-mount-context"),
	"run":          names("bundle b config f console-socket pidfd-socket pid-file preserve-fds"),
	"port-forward": names("stream"),
	"spec":         names("bundle b file f"),
	"update": names(
		"resources r blkio-weight cpu-period cpu-quota cpu-burst cpu-share cpu-rt-period cpu-rt-runtime cpuset-cpus " +
			"cpuset-mems kernel-memory kernel-memory-tcp memory memory-reservation memory-swap cpu-idle " +
			"pids-limit l3-cache-schema " +
			"mem-bw-schema"),
}

func names(list string) map[string]bool {
	set := map[string]bool{}
	for _, name := range strings.Fields(list) {
		set[name] = true
	}
	return set
}
