package server

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/internal/testutil"
)

var seed = flag.Uint64("seed", 0, "the seed of the requests of TestBadRequestsAtScale, 0 for a random one")

// TestBadRequestsAtScale sends a hundred thousand requests to the whole server. They are recorded requests of critest,
// crictl and kubelets (testdata/requests.jsonl) and requests full of nonsense, with a few fields changed. No request
// may make the server panic, hang or leak, or get a gRPC code that blames the server.
func TestBadRequestsAtScale(t *testing.T) {
	total := 100_000
	if raceDetector {
		total = 10_000 // a request takes ten times as long with the race detector
	}
	if testing.Short() {
		total = 5_000
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("seed %d: go test ./server -run BadRequestsAtScale -seed %[1]d", *seed)
	inMemoryDirs(t)
	w := newStackWithPod(t)
	f := &flood{t: t, stack: w, rpcs: map[string]rpc{}, host: t.TempDir(), recorded: recorded(t),
		codes: map[codes.Code]*atomic.Int64{}}
	f.endStuck()
	for _, r := range allRPCs(t) {
		f.rpcs["/"+r.service+"/"+r.name] = r
		f.names = append(f.names, "/"+r.service+"/"+r.name)
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		f.codes[code] = &atomic.Int64{}
	}
	f.run(rand.New(rand.NewPCG(*seed, 0)), total/100)
	f.tidy()
	noMore, files := testutil.NoMoreGoroutines(t), openFiles(t)
	f.run(rand.New(rand.NewPCG(*seed, 1)), total)
	f.tidy()
	noMore()
	testutil.Until(t, "no descriptor is leaked", func() bool { return openFiles(t) <= files })
	testutil.Assert(t, f.codes[codes.OK].Load() != 0 && f.codes[codes.InvalidArgument].Load() != 0,
		"no request got OK, or none got InvalidArgument, so the test proves nothing")
	for code, count := range f.codes {
		if n := count.Load(); n > 0 {
			t.Logf("%v: %d", code, n)
		}
	}
}

// inMemoryDirs lets the test's directories be in memory, where a sync costs nothing.
func inMemoryDirs(t *testing.T) {
	t.Helper()
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		t.Setenv("TMPDIR", "/dev/shm")
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	testutil.Must(t, err)
	return len(entries)
}

// request is a request to one RPC.
type request struct {
	rpc     string
	message proto.Message
}

// flood sends changed requests.
type flood struct {
	t     *testing.T
	stack *stack
	rpcs  map[string]rpc
	names []string
	// host is the directory below which requests make files and directories of the host.
	host     string
	recorded []request
	// ctx is the context of all requests, see endStuck.
	ctx      context.Context
	answered atomic.Int64
	failures atomic.Int64
	codes    map[codes.Code]*atomic.Int64
}

// endStuck makes a context that ends when no request is answered for a minute. A request that hangs then fails. A limit
// for each request would depend on the machine's load.
func (f *flood) endStuck() {
	ctx, cancel := context.WithCancel(f.t.Context())
	f.ctx = ctx
	testutil.Background(f.t, func(ctx context.Context) error {
		defer cancel()
		for before := int64(-1); before != f.answered.Load(); {
			before = f.answered.Load()
			if err := pace.Sleep(ctx, time.Minute); err != nil {
				return nil // the test ends
			}
		}
		return nil
	})
}

// run sends total requests, several at a time. After each batch it removes all pods. It then makes the pod, the
// container and the image that the next batch names.
func (f *flood) run(random *rand.Rand, total int) {
	const batch, workers = 2000, 50
	for sent := 0; sent < total && f.failures.Load() < 10 && !f.t.Failed(); sent += batch {
		var group sync.WaitGroup
		for range workers {
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			group.Go(func() {
				for range min(batch, total-sent) / workers {
					f.send(f.next(own))
				}
			})
		}
		group.Wait()
		f.tidy()
		f.refill()
	}
}

// next makes a request.
func (f *flood) next(random *rand.Rand) request {
	var made request
	if len(f.recorded) > 0 && random.IntN(3) > 0 {
		chosen := f.recorded[random.IntN(len(f.recorded))]
		made = request{chosen.rpc, proto.Clone(chosen.message)}
	} else {
		name := f.names[random.IntN(len(f.names))]
		made = request{name, fullRequest(f.rpcs[name])}
	}
	message := made.message.ProtoReflect()
	if !ends.MatchString(made.rpc) || random.IntN(100) == 0 {
		f.aim(message, random)
	}
	for range random.IntN(5) {
		change(message, random)
	}
	f.confine(message)
	return made
}

// ends matches the RPCs that stop or remove a pod, a container or an image. Other requests still need the existing
// ones.
var ends = regexp.MustCompile("/(Stop|Remove)(PodSandbox|Container|Image)$")

// aim makes most requests name the pod, the container and the image that exist.
func (f *flood) aim(message protoreflect.Message, random *rand.Rand) {
	for name, value := range map[protoreflect.Name]string{"pod_sandbox_id": f.stack.pod,
		"container_id": f.stack.container} {
		if field := message.Descriptor().Fields().ByName(name); field != nil &&
			field.Kind() == protoreflect.StringKind && !field.IsList() && random.IntN(8) > 0 {
			message.Set(field, protoreflect.ValueOfString(value))
		}
	}
	if image := message.Descriptor().Fields().ByName("image"); image != nil &&
		image.Kind() == protoreflect.MessageKind && random.IntN(4) > 0 {
		message.Set(image, protoreflect.ValueOfMessage((&runtimeapi.ImageSpec{Image: "busybox"}).ProtoReflect()))
	}
	if config := message.Descriptor().Fields().ByName("config"); config != nil && message.Has(config) {
		f.aim(message.Mutable(config).Message(), random)
	}
}

// hostPaths are the fields with host paths at which the server creates files or directories.
var hostPaths = map[protoreflect.Name]bool{"host_path": true, "log_directory": true, "location": true,
	"output_path": true, "checkpoint_path": true}

// confine changes the absolute paths in hostPaths to paths below f.host.
func (f *flood) confine(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				f.confine(value.List().Get(i).Message())
			}
		case field.IsList():
		case field.Message() != nil:
			f.confine(value.Message())
		case hostPaths[field.Name()] && strings.HasPrefix(value.String(), "/"):
			message.Set(field, protoreflect.ValueOfString(filepath.Join(f.host, path.Clean(value.String()))))
		}
		return true
	})
}

// send sends a request. The test fails if the code of the answer means a fault of the server.
func (f *flood) send(made request) {
	err := f.rpcs[made.rpc].call(f.ctx, f.stack.conn, made.message)
	f.answered.Add(1)
	code := status.Code(err)
	f.codes[code].Add(1)
	if understandable[code] || knownToKubelets(err) || timedOut(made, code) {
		return
	}
	if f.failures.Add(1) <= 10 {
		text, _ := protojson.Marshal(made.message)
		f.t.Errorf("%s: %.500v\n%.3000s", made.rpc, err, text)
	}
}

// timedOut reports whether an ExecSync exceeded its own timeout, which may be as short as a second.
func timedOut(made request, code codes.Code) bool {
	exec, is := made.message.(*runtimeapi.ExecSyncRequest)
	return is && exec.Timeout > 0 && code == codes.DeadlineExceeded
}

// knownToKubelets reports whether an error is one of kubeletSentinels, which all have the code Unknown.
func knownToKubelets(err error) bool {
	for _, sentinel := range kubeletSentinels {
		if status.Code(err) == codes.Unknown && strings.HasPrefix(status.Convert(err).Message(), sentinel.Error()) {
			return true
		}
	}
	return false
}

// tidy removes all pods, as a kubelet does.
func (f *flood) tidy() {
	pods, err := f.stack.runtime.ListPodSandbox(f.ctx, &runtimeapi.ListPodSandboxRequest{})
	testutil.Assert(f.t, err == nil, "after bad requests: %v", err)
	for _, pod := range pods.GetItems() {
		f.answered.Add(1)
		if _, err := f.stack.runtime.StopPodSandbox(f.ctx,
			&runtimeapi.StopPodSandboxRequest{PodSandboxId: pod.GetId()}); err != nil {
			f.t.Errorf("after bad requests: %v", err)
		}
		if _, err := f.stack.runtime.RemovePodSandbox(f.ctx,
			&runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod.GetId()}); err != nil {
			f.t.Errorf("after bad requests: %v", err)
		}
	}
}

// refill makes the pod, the container and the image that the next requests name. It checks that good requests work.
func (f *flood) refill() {
	_, err := f.stack.images.PullImage(f.ctx,
		&runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "busybox"}})
	testutil.Check(f.t, err, "a good request after bad ones")
	testutil.Check(f.t, f.stack.runPod(f.ctx), "a good request after bad ones")
}

// change changes one field, of the message or of a message below it.
func change(message protoreflect.Message, random *rand.Rand) {
	all := message.Descriptor().Fields()
	if all.Len() == 0 {
		return
	}
	field := all.Get(random.IntN(all.Len()))
	deeper := field.Message() != nil && !field.IsMap() && message.Has(field)
	switch {
	case random.IntN(6) == 0:
		message.Clear(field)
	case field.IsMap():
		message.Mutable(field).Map().Set(protoreflect.ValueOfString(oddText(random)).MapKey(),
			odd(field.MapValue(), random))
	case field.IsList():
		changeList(message, field, random)
	case deeper && random.IntN(8) > 0:
		change(message.Mutable(field).Message(), random)
	case field.Message() != nil:
		fill(message.Mutable(field).Message(), nil)
	default:
		message.Set(field, odd(field, random))
	}
}

func changeList(message protoreflect.Message, field protoreflect.FieldDescriptor, random *rand.Rand) {
	list := message.Mutable(field).List()
	switch {
	case list.Len() > 0 && random.IntN(3) == 0:
		list.Truncate(random.IntN(list.Len()))
	case field.Message() == nil && random.IntN(4) == 0 && list.Len() > 0:
		list.Append(list.Get(0)) // twice the same
	case field.Message() == nil:
		list.Append(odd(field, random))
	case list.Len() > 0:
		change(list.Get(random.IntN(list.Len())).Message(), random)
	default:
		list.AppendMutable()
	}
}

// odd is a value that a program may not expect.
func odd(field protoreflect.FieldDescriptor, random *rand.Rand) protoreflect.Value {
	number := []int64{0, 1, -1, 2, 1000, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64,
		random.Int64()}[random.IntN(10)]
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(oddText(random))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(oddText(random) + "\xff\x00"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(random.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(int32(number)))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(number))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(number))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(number))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(number)
	default:
		panic(fmt.Sprintf("no odd value for %s", field.FullName()))
	}
}

var oddTexts = []string{
	"", " ", ".", "..", "/", "//", "../../../etc/passwd", "/proc/self/root", "/dev/zero", "a/../../b", "-", "--help",
	"a b", "a\nb", "a\x00b", "\u202e", "ö", "😀",
	"sha256:", "sha256:" + "0", "busybox:latest", "busybox@sha256:1", "UPPER/case", "localhost/", "localhost//dev/zero",
	"unconfined", "host", "container:x", "0", "-1", "1e9", "99999999999999999999",
	"10.0.0.1", "::1", "300.0.0.1", "10.0.0.0/33", "k8s_a_b_c_d_0", "io.kubernetes.pod.name", "io.criadapter",
	"net.ipv4.ip_forward", "kernel.shm_rmid_forced", "memory.max", "true", "null", "{}", "%s%n", "$(id)",
}

func oddText(random *rand.Rand) string {
	switch random.IntN(20) {
	case 0:
		return strings.Repeat("x", 1<<random.IntN(14))
	case 1:
		return strings.Repeat("/a", 1<<random.IntN(12))
	default:
		return oddTexts[random.IntN(len(oddTexts))]
	}
}
