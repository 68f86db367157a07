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

// forFaults returns a context that ends after chaosTime, but not before made says that a fault was made. A slow machine
// may not come to a fault within chaosTime.
func forFaults(t *testing.T, made func() int) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	least := chaosTime(t)
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
	// others selects remains that only the engine can remove. It is nil without such remains.
	others func(kind, name string) bool

	mu    sync.Mutex
	codes map[codes.Code]int
	// wrong is the first failure that is not an error answer of the server, such as a pod that cannot be reached.
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

// all calls do for all pods at the same time. A failure fails the test.
func (c *churned) all(what string, do func(*kubelet) error) {
	c.t.Helper()
	var group errgroup.Group
	for _, k := range c.kubelets {
		group.Go(func() error {
			if err := do(k); err != nil {
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
	var done int
	var group sync.WaitGroup
	for _, k := range c.kubelets {
		group.Go(func() {
			for ctx.Err() == nil {
				err := k.kill(c.t.Context())
				if err == nil {
					err = k.bring(c.t.Context())
				}
				c.mu.Lock()
				if status, ok := grpcstatus.FromError(err); err == nil {
					done++
				} else if ok {
					c.codes[status.Code()]++
				} else if c.wrong == nil {
					c.wrong = err
				}
				c.mu.Unlock()
				if err != nil {
					pause(ctx, 100*time.Millisecond, nil)
				}
			}
		})
	}
	group.Wait()
	return done
}

// mattered checks that faults were made while pods came up. Without them the test shows nothing. A short run may end
// before the first whole pod.
func (c *churned) mattered(pods, faults int) {
	c.t.Helper()
	testutil.Assert(c.t, faults > 0, "no fault was made")
	testutil.Assert(c.t, pods > 0 || !*full, "no pod came up among %d faults", faults)
}

// inTime repeats do until it succeeds, for patience at most. A server needs a moment to see that the engine is back.
func inTime(do func() error) (err error) {
	for end := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		if err = do(); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// judge checks, after the last fault, that all pods are as the kubelets asked for and nothing else is left.
func (c *churned) judge() {
	c.t.Helper()
	c.all("STUCK", func(k *kubelet) error { return inTime(func() error { return k.bring(c.t.Context()) }) })
	c.all("LOST", func(k *kubelet) error {
		sandboxes, err := k.sandboxes(c.t.Context())
		if err == nil &&
			(len(sandboxes) != 1 || sandboxes[0].GetId() != k.toldPod ||
				sandboxes[0].GetState() != runtimeapi.PodSandboxState_SANDBOX_READY) {
			err = fmt.Errorf("the last answer named sandbox %s, the server lists %v", k.toldPod, sandboxes)
		}
		return err
	})
	testutil.Equal(c.t, awaitInventory(c.t, c.env, c.server, c.whole, c.besidePods()), "", "LEAKED beside pods")
	c.all("STUCK", func(k *kubelet) error { return inTime(func() error { return k.kill(c.t.Context()) }) })
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

// TestNetworkFails lets pods churn while CNI plugins crash, hang, print garbage, fail although they did their work, and
// do it twice. Afterwards no pod is without its network, and no address, rule or interface is left. SEED repeats a
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
			c.others = inventory.LeftByContainerd(env)
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
					"stopped as often; answers:%s\n", pods, times, countsOf(c.codes))
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
