package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/server/fields"
)

// rpc is one RPC of the CRI API, found by reflection.
type rpc struct {
	service, name   string
	streams         bool
	request, answer protoreflect.MessageType
}

// allRPCs finds the RPCs of both CRI services in the API's own description.
func allRPCs(t *testing.T) []rpc {
	t.Helper()
	var all []rpc
	services := (&runtimeapi.VersionRequest{}).ProtoReflect().Descriptor().ParentFile().Services()
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			method := methods.Get(j)
			all = append(all, rpc{
				service: string(services.Get(i).FullName()),
				name:    string(method.Name()),
				streams: method.IsStreamingServer(),
				request: messageType(t, method.Input()),
				answer:  messageType(t, method.Output()),
			})
		}
	}
	return all
}

func messageType(t *testing.T, descriptor protoreflect.MessageDescriptor) protoreflect.MessageType {
	t.Helper()
	found, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.FullName())
	testutil.Must(t, err)
	return found
}

// call sends a request and reads the whole answer. GetContainerEvents never ends, so call reads only its header.
func (r rpc) call(ctx context.Context, conn *grpc.ClientConn, request proto.Message) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	method := "/" + r.service + "/" + r.name
	if !r.streams {
		return conn.Invoke(ctx, method, request, r.answer.New().Interface())
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if header, err := stream.Header(); r.name == "GetContainerEvents" && header != nil {
		return err
	}
	for {
		err := stream.RecvMsg(r.answer.New().Interface())
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// requiredMessages are the message fields without which a request makes no sense, by RPC.
var requiredMessages = map[string][]string{
	"RunPodSandbox":            {"config", "config.metadata"},
	"CreateContainer":          {"config", "config.metadata", "config.image"},
	"UpdateContainerResources": {"linux"},
	"UpdateRuntimeConfig":      {"runtime_config"},
	"RestorePod":               {"config", "config.metadata", "container_configs"},
	"ImageStatus":              {"image"},
	"PullImage":                {"image"},
	"RemoveImage":              {"image"},
}

func TestEveryRPCIsThere(t *testing.T) {
	const inCRI037 = 43
	testutil.Equal(t, len(allRPCs(t)), inCRI037, "the CRI API")
}

// TestRequestsWithoutAField sends every RPC an empty request, a full one, and the full one without each of its message
// fields, at any depth. No request may cause a panic or an unexpected code, and a refusal names the missing field.
func TestRequestsWithoutAField(t *testing.T) {
	for _, r := range allRPCs(t) {
		t.Run(r.name, func(t *testing.T) {
			check(t, r, r.request.New().Interface(), "")
			check(t, r, fullRequest(r), "")
			refused := map[string]bool{}
			for _, path := range messageFields(fullRequest(r).ProtoReflect(), "") {
				request := fullRequest(r)
				clearField(request.ProtoReflect(), path)
				if check(t, r, request, path) == codes.InvalidArgument {
					refused[path] = true
				}
			}
			for _, path := range requiredMessages[r.name] {
				testutil.Assert(t, refused[path], "a request without %s is not refused", path)
				delete(refused, path)
			}
			for path := range refused {
				t.Errorf("a request without %s is refused, although it makes sense", path)
			}
		})
	}
}

// check sends a request from which the field at path was removed to a fresh node and returns the code of the answer.
func check(t *testing.T, r rpc, request proto.Message, path string) codes.Code {
	t.Helper()
	err := r.call(t.Context(), nodeWithPod().dial(t), request)
	code := status.Code(err)
	switch code {
	case codes.OK, codes.Unimplemented, codes.NotFound:
	case codes.InvalidArgument:
		testutil.Assert(t, path == "" || strings.Contains(err.Error(), path+" is required"),
			"without %s: %v, which does not name the field", path, err)
	default:
		t.Errorf("without %q: %v", path, err)
	}
	return code
}

// The pod and the container of nodeWithPod.
var (
	podID       = fmt.Sprintf("%064x", 1)
	containerID = fmt.Sprintf("%064x", 2)
)

// nodeWithPod is a node with one pod and its one container, running.
func nodeWithPod() *node {
	n := newNode()
	ctx := context.Background()
	id, err := sandboxes{n.services}.Run(ctx, &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "u1"},
		Labels:   map[string]string{"app": "web"},
	}, "")
	if err != nil || id != podID {
		panic(fmt.Sprintf("%s, %v", id, err))
	}
	id, err = containers{n.services}.Create(ctx, podID, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
		Image:    &runtimeapi.ImageSpec{Image: "sha256:1", UserSpecifiedImage: "busybox:1.29"},
		Labels:   map[string]string{"tier": "front"},
	}, nil)
	if err != nil || id != containerID {
		panic(fmt.Sprintf("%s, %v", id, err))
	}
	if err := (containers{n.services}).Start(ctx, containerID); err != nil {
		panic(err)
	}
	return n
}

// fullRequest returns a request with a value in every field.
func fullRequest(r rpc) proto.Message {
	request := r.request.New()
	fill(request, nil)
	return request.Interface()
}

// fill gives every field of a message a value. It leaves out refused fields, and fields that would contain the message
// itself.
func fill(message protoreflect.Message, within []protoreflect.FullName) {
	within = append(within, message.Descriptor().FullName())
	all := message.Descriptor().Fields()
	for i := range all.Len() {
		field := all.Get(i)
		fillField(message, field, within)
		if errdefs.IsNotImplemented(fields.Check(message.Interface())) {
			message.Clear(field)
		}
	}
}

func fillField(message protoreflect.Message, field protoreflect.FieldDescriptor, within []protoreflect.FullName) {
	switch {
	case field.IsMap():
		message.Mutable(field).Map().Set(protoreflect.ValueOfString("key").MapKey(),
			protoreflect.ValueOfString("value"))
	case field.Message() != nil && slices.Contains(within, field.Message().FullName()):
	case field.IsList() && field.Message() == nil:
		message.Mutable(field).List().Append(scalar(field))
	case field.IsList():
		fill(message.Mutable(field).List().AppendMutable().Message(), within)
	case field.Message() != nil:
		fill(message.Mutable(field).Message(), within)
	default:
		message.Set(field, scalar(field))
	}
}

// scalar is a value that makes sense for a field.
func scalar(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text(field.Name()))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("value"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(0)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(1)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(1)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(1)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1)
	default:
		panic(fmt.Sprintf("no value for %s", field.FullName()))
	}
}

func text(field protoreflect.Name) string {
	switch field {
	case "pod_sandbox_id":
		return podID
	case "container_id", "target_id":
		return containerID
	case "runtime_handler":
		return "runc"
	case "working_dir", "container_path":
		return "/value"
	case "servers", "host_ip":
		return "10.0.0.10"
	case "log_directory":
		return "/nonexistent/pods"
	case "pod_cidr":
		return "10.1.0.0/16,fd00::/64"
	default:
		return "value"
	}
}

// messageFields returns the paths of all message fields that are set. It leaves out list elements, which cannot be
// absent.
func messageFields(message protoreflect.Message, prefix string) []string {
	var paths []string
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Message() == nil || field.IsMap() {
			return true
		}
		path := prefix + string(field.Name())
		paths = append(paths, path)
		if !field.IsList() {
			paths = append(paths, messageFields(value.Message(), path+".")...)
		}
		return true
	})
	return paths
}

func clearField(message protoreflect.Message, path string) {
	name, rest, deeper := strings.Cut(path, ".")
	field := message.Descriptor().Fields().ByName(protoreflect.Name(name))
	if deeper {
		clearField(message.Mutable(field).Message(), rest)
		return
	}
	message.Clear(field)
}

// TestRequestsWithoutAnID empties each field that must hold a name or an id.
func TestRequestsWithoutAnID(t *testing.T) {
	required := map[string][]string{
		"RunPodSandbox":             {"config.metadata.name", "config.metadata.namespace", "config.metadata.uid"},
		"StopPodSandbox":            {"pod_sandbox_id"},
		"RemovePodSandbox":          {"pod_sandbox_id"},
		"PodSandboxStatus":          {"pod_sandbox_id"},
		"CreateContainer":           {"pod_sandbox_id", "config.metadata.name", "config.image.image"},
		"StartContainer":            {"container_id"},
		"StopContainer":             {"container_id"},
		"RemoveContainer":           {"container_id"},
		"ContainerStatus":           {"container_id"},
		"UpdateContainerResources":  {"container_id"},
		"UpdatePodSandboxResources": {"pod_sandbox_id"},
		"CheckpointContainer":       {"container_id", "location"},
		"CheckpointPod":             {"pod_sandbox_id", "output_path", "container_ids"},
		"RestorePod": {"checkpoint_path", "config.metadata.name", "config.metadata.namespace",
			"config.metadata.uid"},
		"ExecSync":    {"container_id", "cmd"},
		"ImageStatus": {"image.image"},
		"PullImage":   {"image.image"},
		"RemoveImage": {"image.image"},
	}
	for _, r := range allRPCs(t) {
		for _, path := range required[r.name] {
			request := fullRequest(r)
			clearField(request.ProtoReflect(), path)
			err := r.call(t.Context(), nodeWithPod().dial(t), request)
			testutil.Assert(t, status.Code(err) == codes.InvalidArgument &&
				strings.Contains(err.Error(), path+" is required"), "%s without %s: %v", r.name, path, err)
		}
	}
}

func TestUnknownIDs(t *testing.T) {
	conn := nodeWithPod().dial(t)
	want := map[string]codes.Code{
		"StopPodSandbox":            codes.OK,
		"RemovePodSandbox":          codes.OK,
		"PodSandboxStatus":          codes.NotFound,
		"CreateContainer":           codes.NotFound,
		"StartContainer":            codes.NotFound,
		"StopContainer":             codes.OK,
		"RemoveContainer":           codes.OK,
		"ContainerStatus":           codes.NotFound,
		"UpdateContainerResources":  codes.NotFound,
		"UpdatePodSandboxResources": codes.NotFound,
		"CheckpointContainer":       codes.NotFound,
		"CheckpointPod":             codes.NotFound,
		"ExecSync":                  codes.NotFound,
		"RemoveImage":               codes.OK,
		"ImageStatus":               codes.OK,
	}
	for _, r := range allRPCs(t) {
		code, listed := want[r.name]
		if !listed {
			continue
		}
		request := fullRequest(r)
		setIDs(request, "feed", "feed")
		err := r.call(t.Context(), conn, request)
		testutil.Assert(t, status.Code(err) == code, "%s of an unknown id: %v, want %s", r.name, err, code)
	}
}

// setIDs names the pod and the container in a request that has a field for them.
func setIDs(request proto.Message, pod, container string) {
	message := request.ProtoReflect()
	for name, id := range map[protoreflect.Name]string{"pod_sandbox_id": pod, "container_id": container} {
		if field := message.Descriptor().Fields().ByName(name); field != nil {
			message.Set(field, protoreflect.ValueOfString(id))
		}
	}
}

// TestUnknownIDsWhileTheEngineIsAway checks that a Stop or Remove of an unknown id fails while the cache may lack the
// object.
func TestUnknownIDsWhileTheEngineIsAway(t *testing.T) {
	n := nodeWithPod()
	n.cache.err = errdefs.ErrUnavailable.WithMessage("the engine is away")
	conn := n.dial(t)
	endings := []string{"StopPodSandbox", "RemovePodSandbox", "StopContainer", "RemoveContainer"}
	for _, r := range allRPCs(t) {
		if !slices.Contains(endings, r.name) {
			continue
		}
		request := fullRequest(r)
		setIDs(request, "feed", "feed")
		err := r.call(t.Context(), conn, request)
		testutil.Assert(t, status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "the engine is away"),
			"%s: %v", r.name, err)
	}
}

func TestNegativeTimeouts(t *testing.T) {
	n := nodeWithPod()
	_, err := n.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: containerID, Timeout: -1})
	wantInvalid(t, err, "timeout")
	_, err = n.ExecSync(t.Context(),
		&runtimeapi.ExecSyncRequest{ContainerId: containerID, Cmd: []string{"true"}, Timeout: -1})
	wantInvalid(t, err, "timeout")
}

func wantInvalid(t *testing.T, err error, field string) {
	t.Helper()
	testutil.Assert(t, status.Code(toStatus(err)) == codes.InvalidArgument && strings.Contains(err.Error(), field),
		"got %v, want InvalidArgument naming %s", err, field)
}
