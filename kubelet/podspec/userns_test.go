package podspec

import (
	"context"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// mapped reports whether the mappings cover the 65536 ids from first.
func mapped(list []*runtimeapi.IDMapping, first uint32) bool {
	return len(list) == 1 && list[0].GetHostId() == first && list[0].GetContainerId() == 0 &&
		list[0].GetLength() == 65536
}

// TestUserNamespace: sandbox, containers and mounts have the same user namespace. A pod without a request has none.
func TestUserNamespace(t *testing.T) {
	g := testGenerator(t, func(o *Options) {
		o.FirstUserID = func(context.Context, *v1.Pod) (uint32, error) { return 131072, nil }
	})
	for _, own := range []bool{true, false} {
		pod := testPod(func(p *v1.Pod) {
			p.Spec.HostUsers = new(!own)
			p.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
		})
		sandbox, err := g.Sandbox(t.Context(), pod, 0)
		testutil.Must(t, err)
		config, err := g.Container(t.Context(), input(pod))
		testutil.Must(t, err)
		for what, options := range map[string]*runtimeapi.NamespaceOption{
			"sandbox":   sandbox.GetLinux().GetSecurityContext().GetNamespaceOptions(),
			"container": config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		} {
			users := options.GetUsernsOptions()
			if has := mapped(users.GetUids(), 131072) && mapped(users.GetGids(), 131072) &&
				users.GetMode() == runtimeapi.NamespaceMode_POD; has != own || !own && users != nil {
				t.Errorf("%s with hostUsers %v: %v", what, !own, users)
			}
		}
		testutil.Assert(t, len(config.GetMounts()) != 0, "nothing is mounted")
		for _, mount := range config.GetMounts() {
			has := mapped(mount.GetUidMappings(), 131072) && mapped(mount.GetGidMappings(), 131072)
			testutil.Assert(t, has == own, "%s with hostUsers %v: %v", mount.GetContainerPath(), !own, mount)
		}
	}
	pod := testPod(func(p *v1.Pod) { p.Spec.HostUsers = new(false) })
	_, err := testGenerator(t, func(*Options) {}).Sandbox(t.Context(), pod, 0)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "spec.hostUsers"), "without ids: %v", err)
}

// An image's files belong to the overflow id unless the runtime maps them, too.
func TestEachMountIsMapped(t *testing.T) {
	users := &runtimeapi.UserNamespace{Uids: ids(131072), Gids: ids(131072)}
	mounts := []*runtimeapi.Mount{{HostPath: "/srv"}, {Image: &runtimeapi.ImageSpec{Image: "models:1"}}}
	mapMounts(mounts, users)
	for _, mount := range mounts {
		testutil.Assert(t, mapped(mount.GetUidMappings(), 131072) && mapped(mount.GetGidMappings(), 131072),
			"%v is not mapped", mount)
	}
}
