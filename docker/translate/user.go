package translate

import (
	"math"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxNumericID is the largest user or group id that the engine takes.
const maxNumericID = math.MaxInt32

// userRequest has the fields of a security context for the user of a process.
type userRequest struct {
	user     *runtimeapi.Int64Value
	username string
	group    *runtimeapi.Int64Value
	extra    []int64
	policy   runtimeapi.SupplementalGroupsPolicy
}

// set makes a container's processes run as the user, with its groups.
func (r userRequest) set(field string, config *container.Config, host *container.HostConfig, more *extra) (err error) {
	if config.User, err = r.dockerUser(field); err != nil {
		return err
	}
	if err := r.checkGroups(field); err != nil {
		return err
	}
	switch r.policy {
	case runtimeapi.SupplementalGroupsPolicy_Merge:
		host.GroupAdd = r.merged()
		return nil
	case runtimeapi.SupplementalGroupsPolicy_Strict:
		return r.strict(field+".supplemental_groups_policy", more)
	default:
		return invalid(field+".supplemental_groups_policy", "%d is neither Merge nor Strict", r.policy)
	}
}

// dockerUser returns Docker's "user[:group]", empty for the image's user.
func (r userRequest) dockerUser(field string) (string, error) {
	if r.user != nil && r.username != "" {
		return "", invalid(field+".run_as_username", "excludes run_as_user, give one of them")
	}
	user := r.username
	if err := checkUsername(field+".run_as_username", user); err != nil {
		return "", err
	}
	if r.user != nil {
		if err := checkNumericID(field+".run_as_user", r.user.GetValue()); err != nil {
			return "", err
		}
		user = strconv.FormatInt(r.user.GetValue(), 10)
	}
	if r.group == nil {
		return user, nil
	}
	if user == "" {
		return "", invalid(field+".run_as_group", "goes with run_as_user or run_as_username only")
	}
	if err := checkNumericID(field+".run_as_group", r.group.GetValue()); err != nil {
		return "", err
	}
	return user + ":" + strconv.FormatInt(r.group.GetValue(), 10), nil
}

// merged returns the supplemental groups for Docker's GroupAdd. Docker itself adds the groups that the image's
// /etc/group has for the user, if the user has no group. For a user with a group, see mergeImage.
func (r userRequest) merged() []string {
	var out []string
	for _, group := range r.extra {
		out = append(out, strconv.FormatInt(group, 10))
	}
	return out
}

// mergeImage gives a user with a group the image's groups, too, as the policy Merge demands. Docker adds them to a user
// without a group only. Without a note the process lacks them.
func (r userRequest) mergeImage(field, user string, more *extra) error {
	if r.policy != runtimeapi.SupplementalGroupsPolicy_Merge || r.group == nil || !more.offered() {
		return nil
	}
	note, err := more.need(field, "Merge for a user with a group")
	if err == nil {
		note.Process.GroupsOf, _, _ = strings.Cut(user, ":")
	}
	return err
}

// strict gives the process these groups and no groups from the image.
func (r userRequest) strict(field string, more *extra) error {
	note, err := more.need(field, "Strict")
	if err != nil {
		return err
	}
	groups := []uint32{}
	for _, group := range r.extra {
		groups = append(groups, uint32(group))
	}
	note.Process.Groups = &groups
	return nil
}

func (r userRequest) checkGroups(field string) error {
	for i, group := range r.extra {
		if err := checkNumericID(item(field+".supplemental_groups", i), group); err != nil {
			return err
		}
	}
	return nil
}

func checkNumericID(field string, id int64) error {
	if id < 0 || id > maxNumericID {
		return invalid(field, "%d is outside 0 to %d", id, maxNumericID)
	}
	return nil
}

// checkUsername refuses names with a colon, at which Docker would split them, and names that a passwd file cannot have.
func checkUsername(field, name string) error {
	if name == "" {
		return nil
	}
	if strings.ContainsAny(name, ": \t") {
		return invalid(field, "%q is not a user name", name)
	}
	return checkText(field, name)
}
