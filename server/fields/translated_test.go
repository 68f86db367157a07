package fields

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestEveryFieldIsTranslated sets each field of a pod's and a container's configuration. Each implemented field must
// change the engine's input or the client's error. For any other implemented field, row.by names the package that
// implements it.
func TestEveryFieldIsTranslated(t *testing.T) {
	r := detailed()
	testutil.Must(t, r.send(), "a request with everything")
	changes := map[string]bool{}
	check := func(parent protoreflect.Message, field protoreflect.FieldDescriptor) {
		if field.Message() != nil && !field.IsMap() {
			return // the fields below it are set alone
		}
		kept, name := proto.Clone(parent.Interface()).ProtoReflect(), nameOf(field)
		if !parent.Has(field) {
			return // a zero value counts as unset
		}
		with := r.outcome(t)
		parent.Clear(field)
		changes[name] = changes[name] || with != r.outcome(t)
		parent.Set(field, kept.Get(field))
	}
	for _, config := range []protoreflect.Message{r.pod.ProtoReflect(), r.container.ProtoReflect()} {
		setEach(config, check)
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		if row, _ := rowOf(name); row.is == implemented && row.by == "" && !changes[name] {
			t.Errorf(
				"%s: no value of %s changes what goes to the engine: translate it in docker/translate (container.go, "+
					"sandbox.go), or set the row's `by` to the package that does the work", row.file, name)
		}
	}
}

// outcome returns the engine's input for a request and the client's errors.
func (r *request) outcome(t *testing.T) string {
	t.Helper()
	pod, podErr := r.run()
	container, err := r.create()
	text, encodeErr := json.Marshal([]any{pod, container, message(podErr), message(err)})
	if encodeErr != nil {
		t.Fatal(encodeErr)
	}
	return string(text)
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// detailed is a request with one message of each kind, so that each of their fields can be set alone.
func detailed() *request {
	r := newRequest(newest())
	r.pod.DnsConfig = &runtimeapi.DNSConfig{}
	r.pod.PortMappings = []*runtimeapi.PortMapping{{ContainerPort: 80, HostPort: 80}}
	r.pod.Linux.Overhead = &runtimeapi.LinuxContainerResources{}
	r.container.Devices = []*runtimeapi.Device{{HostPath: "/dev/null", ContainerPath: "/dev/null", Permissions: "r"}}
	r.container.Envs = []*runtimeapi.KeyValue{{Key: "a", Value: []byte("b")}}
	r.container.CDIDevices = []*runtimeapi.CDIDevice{{Name: "vendor.com/gpu=0"}}
	r.security().SelinuxOptions = &runtimeapi.SELinuxOption{Level: "s0"}
	r.security().RunAsUser, r.podSecurity().RunAsUser = number(7), number(7)
	r.security().NamespaceOptions, r.podSecurity().NamespaceOptions = ownUsers(), ownUsers()
	r.container.Linux.Resources = &runtimeapi.LinuxContainerResources{
		MemoryLimitInBytes: 64 << 20, HugepageLimits: []*runtimeapi.HugepageLimit{{PageSize: "2MB", Limit: 2 << 20}},
	}
	r.features.SwapLimit = true
	return r
}
