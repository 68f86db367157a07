package fields

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// methods are the RPCs of both services.
func methods() []protoreflect.MethodDescriptor {
	var all []protoreflect.MethodDescriptor
	services := (&runtimeapi.VersionRequest{}).ProtoReflect().Descriptor().ParentFile().Services()
	for i := range services.Len() {
		for j := range services.Get(i).Methods().Len() {
			all = append(all, services.Get(i).Methods().Get(j))
		}
	}
	return all
}

// reachable adds all fields of a message and of the messages below it, by their names in the table.
func reachable(message protoreflect.MessageDescriptor, into map[string]protoreflect.FieldDescriptor) {
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		if _, seen := into[nameOf(field)]; seen {
			continue
		}
		into[nameOf(field)] = field
		if field.Message() != nil && !field.IsMap() {
			reachable(field.Message(), into)
		}
	}
}

// nameOf is a field's name in the table.
func nameOf(field protoreflect.FieldDescriptor) string {
	return strings.TrimPrefix(string(field.FullName()), apiPackage)
}

// requestFields are the fields of all requests.
func requestFields() map[string]protoreflect.FieldDescriptor {
	all := map[string]protoreflect.FieldDescriptor{}
	for _, method := range methods() {
		reachable(method.Input(), all)
	}
	return all
}

// TestEveryFieldHasOneRow compares the table with the API's own description. With a newer CRI it fails for each new
// field without a row.
func TestEveryFieldHasOneRow(t *testing.T) {
	all, rows := requestFields(), map[string]int{}
	for _, row := range table() {
		for _, field := range row.fields {
			rows[field]++
			testutil.Assert(t, all[field] != nil, "%s: no request has a field %s", row.file, field)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(all)) {
		testutil.Assert(t, rows[field] == 1, "%s has %d rows, want one in %s, or in server/fields/refused.go", field,
			rows[field], fileFor(field))
	}
	t.Logf("%d fields in %d rows, of %d RPCs", len(all), len(table()), len(methods()))
}

func TestRowsSayEnough(t *testing.T) {
	for _, row := range table() {
		name := strings.Join(row.fields, ", ")
		testutil.Assert(t, slices.Contains([]verdict{implemented, refused, notApplicable}, row.is),
			"%s: the verdict %q", name, row.is)
		testutil.Assert(t, strings.HasSuffix(row.says, ".") && !strings.Contains(row.says+row.refuses+row.needs(), "|"),
			"%s: %q is not a sentence, or contains a | that ends the table cell", name, row.says)
		for _, field := range row.fields {
			if ability := abilityOf(field); ability != nil && (row.is != implemented || ability.needs != row.needs()) {
				t.Errorf("%s needs %s, but is in the row of %s in %s", field, ability.needs, name, row.file)
			}
		}
		if row.refuses != "" && row.is != implemented {
			t.Errorf("%s: is %s, and refuses %q", name, row.is, row.refuses)
		}
	}
}

// TestCheck sets each field that is always refused, alone in a message of its kind.
func TestCheck(t *testing.T) {
	tried := map[string]bool{}
	for name, field := range requestFields() {
		row, _ := rowOf(name)
		found, err := protoregistry.GlobalTypes.FindMessageByName(field.ContainingMessage().FullName())
		testutil.Must(t, err)
		values := samples(found.New(), field)
		for _, value := range values {
			message := found.New()
			message.Set(field, value)
			if !message.Has(field) {
				continue // the zero value counts as unset
			}
			tried[name] = true
			err := Check(message.Interface())
			if row.is != refused {
				if errdefs.IsNotImplemented(err) && refusedField(err) == string(field.Name()) {
					t.Errorf("%s is %s and refused: %v", name, row.is, err)
				}
				continue
			}
			testutil.Assert(t, errdefs.IsNotImplemented(err) && err.Error() == string(field.Name())+": "+row.says,
				"%s: %v, want a refusal that begins with the field", name, err)
		}
		testutil.Assert(t, tried[name], "%s was not set", name)
	}
}

// TestCheckNamesThePath looks deep into a request.
func TestCheckNamesThePath(t *testing.T) {
	request := &runtimeapi.RestorePodRequest{
		ContainerConfigs: []*runtimeapi.ContainerConfig{{LogPath: "a"},
			{Windows: &runtimeapi.WindowsContainerConfig{}}}}
	err := Check(request)
	testutil.Assert(t, err != nil && strings.HasPrefix(err.Error(), "container_configs[1].windows: "), "got %v", err)
	pull := &runtimeapi.PullImageRequest{
		SandboxConfig: &runtimeapi.PodSandboxConfig{Windows: &runtimeapi.WindowsPodSandboxConfig{}}}
	testutil.Check(t, Check(pull), "below a field that does nothing")
	var none proto.Message
	testutil.Check(t, Check(none), "no request")
}

// TestStreamsHaveNothingToRefuse shows why the interceptor of streams does not call Check.
func TestStreamsHaveNothingToRefuse(t *testing.T) {
	for _, method := range methods() {
		if !method.IsStreamingServer() {
			continue
		}
		all := map[string]protoreflect.FieldDescriptor{}
		reachable(method.Input(), all)
		for name := range all {
			row, _ := rowOf(name)
			testutil.Assert(t, row.is != refused, "%s has %s, which is refused", method.Name(), name)
		}
	}
}

func TestAbilities(t *testing.T) {
	count := len(abilities())
	for name, c := range map[string]struct {
		available int
		of        []Ability
	}{"the oldest engine": {1, Abilities(oldest())}, "the newest": {count, Abilities(newest())}} {
		available := 0
		for _, ability := range c.of {
			if ability.Available {
				available++
			}
		}
		testutil.Assert(t, len(c.of) == count && available == c.available,
			"%s has %d of %d abilities, want %d of %d", name, available, len(c.of), c.available, count)
	}
}

// BenchmarkCheck measures Check for one request.
func BenchmarkCheck(b *testing.B) {
	r := newRequest(oldest())
	request := &runtimeapi.CreateContainerRequest{Config: r.container, SandboxConfig: r.pod}
	b.ReportAllocs()
	for b.Loop() {
		testutil.Must(b, Check(request))
	}
}
