package config

import (
	"github.com/spf13/pflag"
)

// idleFlags are the flags of cri-dockerd v0.4.3 that mean nothing here, each with the reason. It is never written to.
var idleFlags = []struct{ name, why string }{
	{"hairpin-mode", "set it in the CNI configuration"},
	{"ipv6-dual-stack", "set it in the CNI configuration"},
	{"network-plugin-mtu", "set it in the CNI configuration"},
	{"pod-cidr", "set it in the CNI configuration"},
	{"runtime-cgroups", "set it in the service manager's unit"},
}

// addIdleFlags registers flags that are taken and have no effect, so that a
// node's unit file for cri-dockerd starts this program, too. They are hidden:
// nobody should begin to use them.
func addIdleFlags(flags *pflag.FlagSet) {
	for _, flag := range idleFlags {
		value := flags.VarPF(new(anything), flag.name, "", "taken for cri-dockerd's sake, without effect: "+flag.why)
		value.Hidden = true
		if flag.name == "ipv6-dual-stack" {
			value.NoOptDefVal = "true"
		}
	}
}

// IdleFlags lists those of the given flags that have no effect, each with the reason.
func IdleFlags(flags *pflag.FlagSet) []string {
	var given []string
	for _, flag := range idleFlags {
		if flags.Changed(flag.name) {
			given = append(given, "--"+flag.name+" ("+flag.why+")")
		}
	}
	return given
}

// anything is a flag's value that nobody looks at.
type anything string

// Set implements pflag.Value.
func (a *anything) Set(text string) error {
	*a = anything(text)
	return nil
}

// String implements pflag.Value.
func (a *anything) String() string { return string(*a) }

// Type implements pflag.Value.
func (*anything) Type() string { return "string" }
