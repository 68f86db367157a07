package generate

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func contextOf(c *v1.Container) *v1.SecurityContext {
	c.SecurityContext = cmp.Or(c.SecurityContext, &v1.SecurityContext{})
	return c.SecurityContext
}

// user sets the user and the group if they differ from the image's. A pod takes only numbers.
func (p *pod) user(c *v1.Container, text, image string) {
	user, group, hasGroup := strings.Cut(text, ":")
	uid, err := strconv.ParseInt(user, 10, 64)
	switch {
	case text == image:
	case err != nil:
		p.leave(true, c.Name, "the user %s: runAsUser takes a number", text)
		_, _, hasGroup = strings.Cut(image, ":")
	default:
		contextOf(c).RunAsUser = &uid
		if hasGroup {
			p.group(c, group)
		}
	}
	p.members = p.members || !hasGroup
}

func (p *pod) group(c *v1.Container, text string) {
	p.strict = append(p.strict, c.Name)
	gid, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		p.leave(true, c.Name, "the group %s: runAsGroup takes a number", text)
		return
	}
	contextOf(c).RunAsGroup = &gid
}

// groupsPolicy sets the policy for the groups of the image's /etc/group. The engine gives them to a user without a
// group, and not to a user with one. A pod has one policy for all containers.
func (p *pod) groupsPolicy() {
	switch {
	case p.members:
		for _, name := range p.strict {
			p.leave(true, name, "no groups of /etc/group: containers of a pod share one supplementalGroupsPolicy")
		}
	case len(p.strict) > 0:
		p.securityContext().SupplementalGroupsPolicy = ptr.To(v1.SupplementalGroupsPolicyStrict)
	}
}

func (p *pod) security(c *v1.Container, host *container.HostConfig) {
	if host.Privileged {
		contextOf(c).Privileged = ptr.To(true)
	}
	if host.ReadonlyRootfs {
		contextOf(c).ReadOnlyRootFilesystem = ptr.To(true)
	}
	if len(host.CapAdd)+len(host.CapDrop) > 0 {
		contextOf(c).Capabilities = &v1.Capabilities{Add: capabilities(host.CapAdd), Drop: capabilities(host.CapDrop)}
	}
	for _, group := range host.GroupAdd {
		gid, err := strconv.ParseInt(group, 10, 64)
		if err != nil {
			p.leave(true, c.Name, "the group %s: supplementalGroups takes numbers", group)
			continue
		}
		context := p.securityContext()
		context.SupplementalGroups = append(context.SupplementalGroups, gid)
	}
	for _, option := range host.SecurityOpt {
		p.securityOption(c, option, host.Privileged)
	}
}

func capabilities(names []string) (added []v1.Capability) {
	for _, name := range names {
		added = append(added, v1.Capability(strings.TrimPrefix(strings.ToUpper(name), "CAP_")))
	}
	return added
}

// securityOption translates one --security-opt. A privileged container has label=disable by itself.
func (p *pod) securityOption(c *v1.Container, option string, privileged bool) {
	name, value, found := strings.Cut(option, "=")
	if !found { // the older notation
		name, value, _ = strings.Cut(option, ":")
	}
	switch context := contextOf(c); {
	case name == "no-new-privileges" && (!privileged || value == "false"): // refused for a privileged container
		context.AllowPrivilegeEscalation = ptr.To(value == "false")
	case name == "seccomp" && value == "unconfined":
		context.SeccompProfile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined}
	case name == "apparmor" && value == "unconfined":
		context.AppArmorProfile = &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}
	case name == "apparmor":
		context.AppArmorProfile = &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &value}
	case name == "label" && p.label(context, value), name == "label" && value == "disable" && privileged:
	default:
		p.leave(true, c.Name, "the security option %.60s", option)
	}
	if *c.SecurityContext == (v1.SecurityContext{}) {
		c.SecurityContext = nil
	}
}

// label translates a part of an SELinux label.
func (p *pod) label(context *v1.SecurityContext, option string) bool {
	name, value, _ := strings.Cut(option, ":")
	options := cmp.Or(context.SELinuxOptions, &v1.SELinuxOptions{})
	switch name {
	case "user":
		options.User = value
	case "role":
		options.Role = value
	case "type":
		options.Type = value
	case "level":
		options.Level = value
	default:
		return false
	}
	context.SELinuxOptions = options
	return true
}
