package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/inventory"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// full walks all points and lets faults go on for long, as make chaos does.
var full = flag.Bool("full", os.Getenv("CHAOS") == "full", "walk all points")

// stride returns the distance between two walked points: STRIDE if it is set, 1 in make chaos, and testStride in make
// test.
func stride(t *testing.T) int {
	t.Helper()
	if text := os.Getenv("STRIDE"); text != "" {
		n, err := strconv.Atoi(text)
		testutil.Require(t, err == nil && n >= 1, "STRIDE=%s", text)
		return n
	}
	if *full {
		return 1
	}
	return testStride
}

// testStride is the stride of make test.
const testStride = 24

// walk kills a server at each step of each request.
type walk struct {
	*testing.T
	env     rigenv.Env
	kind    string
	server  *adapter.Server
	control control
	kubelet *kubelet
	image   string
	// empty is the inventory without a pod, and whole with one healthy pod.
	empty, whole inventory.Inventory

	// walked are the points that requests passed, and killed the points at which the server was killed.
	walked, killed map[string][]string
	count          counts
}

// counts has the figures of a walk.
type counts struct{ points, before, after, leaked, lost, stuck int }

func (c counts) String() string {
	return fmt.Sprintf("%d points, %d killed before, %d killed after, %d leaked, %d lost, %d stuck", c.points, c.before,
		c.after, c.leaked, c.lost, c.stuck)
}

// sandboxKinds has the server's flags by kind of pod: with a sandbox container, and with namespaces that the kernel
// holds.
var sandboxKinds = map[string][]string{
	"container": {"--sandbox-container=always"},
	"kernel":    {"--sandbox-container=needed"},
}

// TestStepWalk kills the server before and after each step of each request that changes something, on the real engine.
// It restarts the server and acts like a kubelet whose request got no answer. The objects of earlier answers must still
// exist, the pod must work, and in the end nothing may be left.
func TestStepWalk(t *testing.T) {
	env := withSteps(t, rigenv.Require(t))
	newEngine(t, &env, true)
	var sum counts
	walked, killed := map[string][]string{}, map[string][]string{}
	for _, kind := range []string{"container", "kernel"} {
		t.Run(kind, func(t *testing.T) {
			w := newWalk(t, env, kind, walked, killed)
			for _, s := range scenarios() {
				if w.walks(s) {
					w.scenario(s)
				}
			}
			fmt.Printf("walk: %s: %v\n", kind, w.count)
			sum.add(w.count)
		})
	}
	steps := sourceSteps(t)
	fmt.Printf("walk: %d steps, %v\n", len(steps), sum)
	if os.Getenv("UPDATE") != "" {
		updateSteps(t, stepTable(steps, walked))
	}
	for _, step := range steps {
		for _, side := range []string{"before ", "after "} {
			if len(walked[side+step]) == 0 || stride(t) == 1 && len(killed[side+step]) == 0 {
				t.Errorf("no server was killed %s%q: package test/chaos needs a scenario with this step", side, step)
			}
		}
	}
}

func (c *counts) add(more counts) {
	c.points, c.before, c.after = c.points+more.points, c.before+more.before, c.after+more.after
	c.leaked, c.lost, c.stuck = c.leaked+more.leaked, c.lost+more.lost, c.stuck+more.stuck
}

func newWalk(t *testing.T, env rigenv.Env, kind string, walked, killed map[string][]string) *walk {
	t.Helper()
	w := &walk{T: t, env: env, kind: kind, control: control(t.TempDir()), image: env.Image("test/busybox:latest"),
		walked: walked, killed: killed}
	w.server = adapter.ForTest(t,
		adapter.Options{Env: env, Flags: sandboxKinds[kind],
			Environ: []string{"CRIADAPTER_STEPS=" + string(w.control)}})
	w.kubelet = newKubelet(w.server, env, "walker", 18080)
	testutil.Must(w, w.kubelet.pull(t.Context(), w.image))
	// The first pod leaves a bridge, directories and the sandbox image, which all later pods use.
	testutil.Must(w, w.kubelet.bring(t.Context()))
	testutil.Must(w, w.kubelet.kill(t.Context()))
	w.empty = takeInventory(t, env, w.server)
	testutil.Must(w, w.kubelet.bring(t.Context()))
	w.whole = takeInventory(t, env, w.server)
	testutil.Must(w, w.kubelet.kill(t.Context()))
	left := awaitInventory(t, env, w.server, w.empty, nil)
	testutil.Require(t, left == "", "a pod without a fault leaves\n%s", left)
	return w
}

// walks reports whether a scenario is walked with this kind of sandbox. If only a few points are walked, most scenarios
// use the kind kernel alone.
func (w *walk) walks(s scenario) bool {
	if s.kind != "" {
		return s.kind == w.kind
	}
	return stride(w.T) < testStride || w.kind == "kernel" || s.name == "RunPodSandbox"
}

// scenario kills the server at each point of a request.
func (w *walk) scenario(s scenario) {
	w.Helper()
	points, err := w.trace(s)
	if err != nil {
		w.Errorf("%s, not killed: %v", s.name, err)
		w.rescue()
		return
	}
	at := len(s.name) // scenarios begin at different points
	for _, p := range points {
		if len(s.prefixes) > 0 &&
			!slices.ContainsFunc(s.prefixes, func(start string) bool { return strings.HasPrefix(p.step, start) }) {
			continue
		}
		note(w.walked, p, s.name)
		if at++; at%stride(w.T) == 0 {
			w.point(s, p)
		}
	}
}

// trace finds the points of a request.
func (w *walk) trace(s scenario) ([]point, error) {
	if err := s.prepare(w); err != nil {
		return nil, err
	}
	w.control.arm(w.T, nil)
	if err := s.act(w.Context(), w); err != nil {
		return nil, err
	}
	points := w.control.trace(w.T)
	return points, w.settle(s)
}

// note adds the name of a request to a point, once.
func note(points map[string][]string, p point, name string) {
	key := p.side + " " + p.step
	if !slices.Contains(points[key], name) {
		points[key] = append(points[key], name)
	}
}

// point kills the server at one point of a request, restarts it, and checks that nothing is lost, leaked or stuck.
func (w *walk) point(s scenario, p point) {
	w.Helper()
	if err := s.prepare(w); err != nil {
		w.Errorf("%s: %v", s.name, err)
		w.rescue()
		return
	}
	before := w.kubelet.answered()
	w.control.arm(w.T, &p)
	err := s.act(w.Context(), w)
	if !w.awaitKill() {
		// The point was in the trace, but this run may miss it. Requests do some of their steps in parallel, and log
		// followers do their steps at any time.
		w.control.arm(w.T, nil)
		if err = errors.Join(err, w.settle(s)); err != nil {
			w.Errorf("%s, not killed %s: %v", s.name, p, err)
			w.rescue()
		}
		fmt.Printf("walk: %s %s: %s was not reached\n", w.kind, s.name, p)
		return
	}
	note(w.killed, p, s.name)
	w.control.arm(w.T, nil)
	w.count.points++
	if p.side == "before" {
		w.count.before++
	} else {
		w.count.after++
	}
	began := time.Now()
	testutil.Must(w, w.server.Start(w.Context()))
	lost := w.kubelet.lost(w.Context(), s, before)
	if lost != nil {
		w.count.lost++
		lost = fmt.Errorf("LOST: %w", lost)
	}
	failed := w.settle(s)
	if failed != nil {
		w.rescue()
	}
	verdict := "well"
	if err := errors.Join(lost, failed); err != nil {
		verdict = err.Error()
		w.Errorf("%s, killed %s: %v", s.name, p, err)
	}
	fmt.Printf("walk: %s %s, killed %s: %s after %v\n", w.kind, s.name, p, verdict,
		time.Since(began).Round(time.Millisecond))
}

// awaitKill waits a moment for the server's end, and reports whether it has ended.
func (w *walk) awaitKill() bool {
	select {
	case <-w.server.Ended():
		return true
	case <-time.After(500 * time.Millisecond):
		return false
	}
}

// settle acts like a kubelet whose request got no answer, and then removes the pod. It checks the node's inventory
// before and after the removal.
func (w *walk) settle(s scenario) error {
	if s.again != nil {
		if err := s.again(w); err != nil {
			w.count.stuck++
			return fmt.Errorf("STUCK: %w", err)
		}
	}
	if !s.gone {
		if err := w.kubelet.bring(w.Context()); err != nil {
			w.count.stuck++
			return fmt.Errorf("STUCK: %w", err)
		}
		if !s.odd {
			if left := awaitInventory(w.T, w.env, w.server, w.whole, nil); left != "" {
				w.count.leaked++
				return fmt.Errorf("LEAKED beside a pod:\n%s", left)
			}
		}
	}
	w.kubelet.restore()
	if err := w.kubelet.kill(w.Context()); err != nil {
		w.count.stuck++
		return fmt.Errorf("STUCK: %w", err)
	}
	if left := awaitInventory(w.T, w.env, w.server, w.empty, nil); left != "" {
		w.count.leaked++
		return fmt.Errorf("LEAKED:\n%s", left)
	}
	return nil
}

// rescue cleans up after a failed point, so that the next point is not blamed for what the failed point left.
func (w *walk) rescue() {
	w.kubelet.restore()
	w.control.arm(w.T, nil)
	if w.server.PID() == 0 {
		testutil.Must(w, w.server.Start(w.Context()))
	}
	// From now on, both inventories contain what the failed point left. Each call of kill or bring may fail again.
	if w.kubelet.kill(w.Context()) == nil && w.kubelet.bring(w.Context()) == nil {
		w.whole = takeInventory(w.T, w.env, w.server)
	}
	_ = w.kubelet.kill(w.Context())
	w.empty = takeInventory(w.T, w.env, w.server)
}

// scenario is a request and the state of the node that it is sent in.
type scenario struct {
	name string
	// kind is the only kind of sandbox that the scenario is run with; it is empty for both kinds.
	kind string
	// prefixes are the beginnings of the steps at which the server is killed. Empty means all steps. Other scenarios
	// cover the other steps.
	prefixes []string
	prepare  func(*walk) error
	act      func(context.Context, *walk) error
	// again is what a kubelet does when it got no answer to the request; nil if it only syncs its pod.
	again func(*walk) error
	// gone says that settle does not bring the pod up again. odd says that the node's inventory with the pod differs
	// from whole, so settle does not compare them.
	gone, odd bool
	// ends names the object that the request ends, which need not exist any more.
	ends string
}

func scenarios() []scenario {
	return slices.Concat(podScenarios(), containerScenarios(), imageScenarios())
}

// removeExtracted stops the server, removes the images that it has extracted for mounts, and starts it again.
func (w *walk) removeExtracted() error {
	w.server.Kill()
	dirs, err := filepath.Glob(filepath.Join(w.server.RootDir, "image-volumes", "*"))
	for _, dir := range dirs {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return errors.Join(err, w.server.Start(w.Context()))
}
