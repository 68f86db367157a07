package config

import (
	"github.com/spf13/pflag"
)

// idleFlags are the flags of cri-dockerd v0.4.3 without an effect here, each with the reason. It is constant.
var idleFlags = []struct{ name, why string }{
	{"hairpin-mode", "set it in the CNI configuration"},
	{"ipv6-dual-stack", "set it in the CNI configuration"},
	{"network-plugin-mtu", "set it in the CNI configuration"},
	{"pod-cidr", "set it in the CNI configuration"},
	{"runtime-cgroups", "set it in the service manager's unit"},
}

// addIdleFlags registers flags without an effect, so that a node's unit file for cri-dockerd starts this program, too.
// They are hidden from the help.
func addIdleFlags(flags *pflag.FlagSet) {
	for _, flag := range idleFlags {
		flags.String(flag.name, "", "accepted for cri-dockerd's unit files, without effect: "+flag.why)
		flags.Lookup(flag.name).Hidden = true
	}
	flags.Lookup("ipv6-dual-stack").NoOptDefVal = "true"
}

// IdleFlags lists the given flags that have no effect, each with the reason.
func IdleFlags(flags *pflag.FlagSet) []string {
	var given []string
	for _, flag := range idleFlags {
		if flags.Changed(flag.name) {
			given = append(given, "--"+flag.name+" ("+flag.why+")")
		}
	}
	return given
}
