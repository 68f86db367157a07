package server

import (
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// containerUser returns the identity with which the container's first process began. The identity comes from the OCI
// runtime's configuration, if criadapter has read it. Otherwise it comes from the container's configuration, if the
// configuration is unambiguous.
func containerUser(c *state.Container) *runtimeapi.ContainerUser {
	identity := c.Status.Identity
	if identity == nil {
		return givenUser(c)
	}
	user := &runtimeapi.LinuxContainerUser{Uid: int64(identity.UID), Gid: int64(identity.GID)}
	for _, group := range identity.Groups {
		user.SupplementalGroups = append(user.SupplementalGroups, int64(group))
	}
	return &runtimeapi.ContainerUser{Linux: user}
}

// givenUser returns the identity of a configuration with a numeric user and group and the policy Strict. Files in the
// image decide about a name, a user without a group, and the groups that the policy Merge adds.
func givenUser(c *state.Container) *runtimeapi.ContainerUser {
	asked := c.Meta.Config.GetLinux().GetSecurityContext()
	if asked.GetSupplementalGroupsPolicy() != runtimeapi.SupplementalGroupsPolicy_Strict {
		return nil
	}
	user, group, _ := strings.Cut(c.Meta.User, ":")
	uid, err := strconv.ParseInt(user, 10, 64)
	if err != nil {
		return nil
	}
	gid, err := strconv.ParseInt(group, 10, 64)
	if err != nil {
		return nil
	}
	groups := append([]int64{gid}, asked.GetSupplementalGroups()...)
	return &runtimeapi.ContainerUser{
		Linux: &runtimeapi.LinuxContainerUser{Uid: uid, Gid: gid, SupplementalGroups: groups}}
}
