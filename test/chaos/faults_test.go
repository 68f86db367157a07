package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/badplugins"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/inventory"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// seedOf is the seed in the variable SEED, or a random one.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("SEED")
	if text == "" {
		return uint64(time.Now().UnixNano())
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	testutil.Require(t, err == nil, "SEED=%s: %v", text, err)
	return seed
}

// chaosTime is how long faults go on: the variable CHURN, or a minute in make chaos, or a moment in make test.
func chaosTime(t *testing.T) time.Duration {
	t.Helper()
	if text := os.Getenv("CHURN"); text != "" {
		given, err := time.ParseDuration(text)
		testutil.Require(t, err == nil, "CHURN=%s: %v", text, err)
		return given
	}
	if *full {
		return time.Minute
	}
	return 5 * time.Second
}

// forFaults returns a context that ends after chaosTime, but not before made has counted a fault. On a slow machine,
// chaosTime may pass without a fault.
func forFaults(t *testing.T, made func() int) (context.Context, context.CancelFunc) {
	t.Helper()
	least := chaosTime(t)
	ctx, cancel := context.WithTimeout(t.Context(), least+patience)
	go func() {
		defer cancel()
		for pause(ctx, least, nil); ctx.Err() == nil && made() == 0; {
			pause(ctx, 100*time.Millisecond, nil)
		}
	}()
	return ctx, cancel
}

// podsOf is the number of pods that churn: as many as on a busy node, or a few in a short run.
func podsOf() int {
	if *full {
		return 20
	}
	return 4
}

// needsTime skips a test that shows nothing in a short run.
func needsTime(t *testing.T) {
	t.Helper()
	if !*full && os.Getenv("CHURN") == "" {
		t.Skip("make chaos runs it")
	}
}

// churned is a server whose pods several kubelets bring up and remove again.
type churned struct {
	t        *testing.T
	env      rigenv.Env
	server   *adapter.Server
	kubelets []*kubelet
	empty    inventory.Inventory
	whole    inventory.Inventory
	// others selects remains that only the engine can remove. It is nil if the test expects none.
	others func(kind, name string) bool
	// ends says that the faults end containers and lose their output, so that pods may break.
	ends bool

	mu    sync.Mutex
	codes map[codes.Code]int
	// broke counts the errors of the type broken, if ends is set.
	broke int
	// wrong is the first failure that no fault explains. It is neither an error answer of the server nor counted in
	// broke.
	wrong error
}

// newChurned starts a server on an engine, and takes an inventory without pods and with all of them. direct reaches the
// engine without a proxy.
func newChurned(t *testing.T, env, direct rigenv.Env, pods int, flags ...string) *churned {
	t.Helper()
	c := &churned{t: t, env: direct, codes: map[codes.Code]int{}}
	c.server = adapter.ForTest(t, adapter.Options{Env: env, Flags: flags})
	for i := range pods {
		c.kubelets = append(c.kubelets, newKubelet(c.server, env, fmt.Sprintf("pod-%d", i), int32(18000+i)))
	}
	testutil.Must(t, c.kubelets[0].pull(t.Context(), env.Image("test/busybox:latest")))
	c.all("the first pods", func(k *kubelet) error { return errors.Join(k.bring(t.Context()), k.kill(t.Context())) })
	c.empty = takeInventory(t, c.env, c.server)
	c.all("whole pods", func(k *kubelet) error { return k.bring(t.Context()) })
	c.whole = takeInventory(t, c.env, c.server)
	return c
}

// all takes a step with all pods at the same time. A failure fails the test.
func (c *churned) all(what string, step func(*kubelet) error) {
	c.t.Helper()
	var group errgroup.Group
	for _, k := range c.kubelets {
		group.Go(func() error {
			if err := step(k); err != nil {
				return fmt.Errorf("%s: %w", k.pod.GetMetadata().GetName(), err)
			}
			return nil
		})
	}
	testutil.Check(c.t, group.Wait(), what)
}

// churn lets each kubelet replace its pod repeatedly until ctx ends, and returns the number of successes. A failed step
// is tried again, as a kubelet does.
func (c *churned) churn(ctx context.Context) int {
	var done atomic.Int64
	var group sync.WaitGroup
	for _, k := range c.kubelets {
		group.Go(func() {
			for ctx.Err() == nil {
				err := k.kill(c.t.Context())
				if err == nil {
					err = k.bring(c.t.Context())
				}
				if err == nil {
					done.Add(1)
					continue
				}
				c.failed(err)
				pause(ctx, 100*time.Millisecond, nil)
			}
		})
	}
	group.Wait()
	return int(done.Load())
}

// failed records the failure of a step.
func (c *churned) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	status, answer := grpcstatus.FromError(err)
	switch {
	case answer:
		c.codes[status.Code()]++
	case c.ends && errors.As(err, new(broken)):
		c.broke++
	case c.wrong == nil:
		c.wrong = err
	}
}

// mattered checks that faults were made while pods came up. Without them the test shows nothing. A short run may end
// before the first whole pod.
func (c *churned) mattered(pods, faults int) {
	c.t.Helper()
	testutil.Assert(c.t, faults > 0, "no fault was made")
	testutil.Assert(c.t, pods > 0 || !*full, "no pod came up among %d faults", faults)
}

// inTime repeats step until it succeeds or the time within is over. A server needs a moment to see that the engine is
// back.
func inTime(ctx context.Context, within time.Duration, step func(context.Context) error) error {
	var cause error // the last error that is not a deadline, since a deadline does not say why
	for end := time.Now().Add(within); ; pause(ctx, 200*time.Millisecond, nil) {
		err := step(ctx)
		if err == nil {
			return nil
		}
		late := grpcstatus.Code(err) == codes.DeadlineExceeded
		if !late {
			cause = err
		}
		switch over := ctx.Err() != nil || time.Now().After(end); {
		case over && late && cause != nil:
			return fmt.Errorf("not within %v: %w; before it: %w", within, err, cause)
		case over:
			return fmt.Errorf("not within %v: %w", within, err)
		}
	}
}

// judge checks the pods after the last fault. All pods must be as the kubelets want them, and nothing else may be left.
// Earlier failures must be error answers, or pods that broke because a fault ended their containers.
func (c *churned) judge() {
	c.t.Helper()
	testutil.Check(c.t, c.wrong, "WRONG")
	c.all("STUCK", func(k *kubelet) error { return inTime(c.t.Context(), patience, k.bring) })
	c.all("LOST", func(k *kubelet) error {
		sandboxes, err := k.sandboxes(c.t.Context())
		if err == nil &&
			(len(sandboxes) != 1 || sandboxes[0].GetId() != k.lastPod ||
				sandboxes[0].GetState() != runtimeapi.PodSandboxState_SANDBOX_READY) {
			err = fmt.Errorf("the last answer named sandbox %s, the server lists %v", k.lastPod, sandboxes)
		}
		return err
	})
	testutil.Equal(c.t, awaitInventory(c.t, c.env, c.server, c.whole, c.besidePods()), "", "LEAKED beside pods")
	c.all("STUCK", func(k *kubelet) error { return inTime(c.t.Context(), patience, k.kill) })
	testutil.Equal(c.t, awaitInventory(c.t, c.env, c.server, c.empty, c.others), "", "LEAKED")
}

// besidePods selects the remains that others allows, and processes. A container that its engine has forgotten runs
// until the kubelet kills the processes in its pod's cgroup.
func (c *churned) besidePods() func(kind, name string) bool {
	if c.others == nil {
		return nil
	}
	return func(kind, name string) bool { return kind == "process" || c.others(kind, name) }
}

// TestEngineAnswersBadly lets pods churn while the engine answers late, with errors, in part or not at all. A request
// that fails may still have taken effect. Events are lost, repeated, late or cut off. Afterwards each pod is as its
// kubelet wants it, and nothing else is left. SEED repeats a schedule.
func TestEngineAnswersBadly(t *testing.T) {
	seed := seedOf(t)
	fmt.Printf("engine: SEED=%d\n", seed)
	env := ownEngine(t)
	direct := env
	proxy := newFaultyEngine(t, &env, seed)
	c := newChurned(t, env, direct, podsOf())
	ctx, cancel := forFaults(t, proxy.faults)
	defer cancel()
	proxy.begin()
	calm := make(chan struct{})
	go func() { <-ctx.Done(); proxy.end(); close(calm) }()
	pods := c.churn(ctx)
	<-calm
	fmt.Printf("engine: %d pods came up; faults:%s; answers:%s\n", pods, countsOf(proxy.made), countsOf(c.codes))
	c.mattered(pods, sumOf(proxy.made))
	c.judge()
}

// TestNetworkFails lets pods churn while CNI plugins crash, hang, print garbage, fail after their work is done, or do
// their work twice. Afterwards no pod is without its network, and no address, rule or interface is left. SEED repeats a
// schedule.
func TestNetworkFails(t *testing.T) {
	seed := seedOf(t)
	fmt.Printf("network: SEED=%d\n", seed)
	env := ownEngine(t)
	plugins := newBadPlugins(t, env.WorkDir, env.CNIBinDir)
	c := newChurned(t, env, env, podsOf(), "--cni-bin-dir="+plugins.Dir)
	faults := func() int {
		made, err := plugins.Made()
		testutil.Check(t, err)
		return sumOf(made) - made["none"]
	}
	ctx, cancel := forFaults(t, faults)
	defer cancel()
	testutil.Must(t, plugins.Begin(seed, 25, badplugins.Faults()...))
	calm := make(chan error)
	go func() { <-ctx.Done(); calm <- plugins.End() }()
	pods := c.churn(ctx)
	testutil.Check(t, <-calm)
	made, err := plugins.Made()
	testutil.Check(t, err)
	fmt.Printf("network: %d pods came up; calls of plugins:%s; answers:%s\n", pods, countsOf(made), countsOf(c.codes))
	c.mattered(pods, faults())
	c.judge()
}

// TestEngineDies lets pods churn while dockerd is killed and started again, while it hangs, and while its containerd is
// killed. Without live-restore an engine that starts again ends all containers that it finds.
func TestEngineDies(t *testing.T) {
	needsTime(t)
	for name, liveRestore := range map[string]bool{"live-restore": true, "containers end with it": false} {
		t.Run(name, func(t *testing.T) {
			env := rigenv.Require(t)
			eng := newEngine(t, &env, liveRestore)
			c := newChurned(t, env, env, podsOf())
			c.others, c.ends = inventory.LeftByContainerd(env), true
			for _, k := range c.kubelets {
				k.heals = true
			}
			ctx, cancel := context.WithTimeout(t.Context(), chaosTime(t))
			defer cancel()
			hurt := make(chan int)
			go func() { hurt <- c.hurt(ctx, eng) }()
			pods, times := c.churn(ctx), <-hurt
			fmt.Printf(
				"engine: %d pods came up, dockerd and its containerd were killed %d times each, and dockerd was "+
					"stopped as often; pods broke %d times; answers:%s\n", pods, times, c.broke, countsOf(c.codes))
			c.mattered(pods, times)
			c.judge()
		})
	}
}

// hurt kills the engine and starts it again, stops it for a moment, and kills its containerd, until ctx ends. The
// engine starts containerd again by itself. hurt returns the number of rounds.
func (c *churned) hurt(ctx context.Context, eng *engine.Engine) (times int) {
	steps := []struct {
		after time.Duration
		do    func() error
	}{
		{4 * time.Second, func() error {
			times++
			eng.Kill()
			return eng.Start(c.t.Context())
		}},
		{4 * time.Second, func() error { return eng.Signal(syscall.SIGSTOP) }},
		{3 * time.Second, func() error { return eng.Signal(syscall.SIGCONT) }},
		{4 * time.Second, eng.KillContainerd},
	}
	for ctx.Err() == nil {
		for _, step := range steps {
			pause(ctx, step.after, nil)
			if err := step.do(); err != nil {
				c.t.Error(err)
				return times
			}
		}
	}
	return times
}

// sumOf adds up figures.
func sumOf(figures map[string]int) (sum int) {
	for _, n := range figures {
		sum += n
	}
	return sum
}

// countsOf writes figures by name.
func countsOf[K interface {
	comparable
	~string | ~uint32
}](figures map[K]int) string {
	var names []string
	for name, n := range figures {
		names = append(names, fmt.Sprintf(" %v %d", name, n))
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}
