package cgroup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/criadapter/criadapter/internal/testutil"
)

// fakeUnits is a fake systemd. Slices are directories with properties.
type fakeUnits struct {
	root  string
	units map[string]map[string]string
	// open is the number of open connections. dials counts all connections, and calls counts the requests.
	open, dials, calls int
	lost               bool
	result             string // of each job
}

func (u *fakeUnits) dir(unit string) string {
	// a-b.slice is /a.slice/a-b.slice.
	parts := strings.Split(strings.TrimSuffix(unit, ".slice"), "-")
	path := u.root
	for i := range parts {
		path = filepath.Join(path, strings.Join(parts[:i+1], "-")+".slice")
	}
	return path
}

func (u *fakeUnits) set(unit string, properties []systemd.Property) {
	for _, p := range properties {
		u.units[unit][p.Name] = fmt.Sprint(p.Value.Value())
	}
}

func (u *fakeUnits) StartTransientUnitContext(
	_ context.Context, unit, _ string, properties []systemd.Property, done chan<- string,
) (int, error) {
	u.calls++
	if u.units[unit] != nil {
		return 0, dbus.Error{Name: "org.freedesktop.systemd1.UnitExists"}
	}
	u.units[unit] = map[string]string{}
	u.set(unit, properties)
	done <- u.result
	return 1, os.MkdirAll(u.dir(unit), 0o755)
}

func (u *fakeUnits) SetUnitPropertiesContext(
	_ context.Context, unit string, runtime bool, properties ...systemd.Property,
) error {
	u.calls++
	if !runtime {
		return fmt.Errorf("%s would outlive the next boot", unit)
	}
	u.set(unit, properties)
	return nil
}

func (u *fakeUnits) StopUnitContext(_ context.Context, unit, _ string, done chan<- string) (int, error) {
	u.calls++
	delete(u.units, unit)
	done <- u.result
	return 1, os.RemoveAll(u.dir(unit))
}

func (u *fakeUnits) Connected() bool { return !u.lost }

func (u *fakeUnits) Close() { u.open-- }

func sliceManager(t *testing.T) (*Manager, *fakeUnits) {
	t.Helper()
	fake := &fakeUnits{root: t.TempDir(), units: map[string]map[string]string{}, result: "done"}
	m := New(context.Background(), Options{Root: "me"})
	m.tree = &sliceTree{files: &files{unified: true, hierarchies: []string{fake.root}},
		systemd: &connection{dial: func(context.Context) (units, error) {
			fake.open++
			fake.dials++
			fake.lost = false
			return fake, nil
		}}}
	t.Cleanup(func() {
		m.Close()
		testutil.Assert(t, fake.open == 0, "%d connections were left open", fake.open)
	})
	return m, fake
}

func TestSlices(t *testing.T) {
	m, fake := sliceManager(t)
	ctx := context.Background()
	pod := podOf("12-34", "cpu=1", "memory=64Mi")
	const want = "/me.slice/me-kubepods.slice/me-kubepods-burstable.slice/me-kubepods-burstable-pod12_34.slice"
	for range 2 {
		got, err := m.Ensure(ctx, pod)
		testutil.Require(t, err == nil && got == want, "got %s, %v; want %s", got, err, want)
	}
	const infinity = "18446744073709551615"
	unit := fake.units["me-kubepods-burstable-pod12_34.slice"]
	testutil.Assert(t, unit["CPUWeight"] == "39" && unit["MemoryMax"] == "67108864" &&
		unit["CPUQuotaPerSecUSec"] == infinity, "properties %v", unit)
	_, err := m.Ensure(ctx, podOf("12-34", "cpu=1", ""))
	testutil.Assert(t, err == nil && unit["MemoryMax"] == infinity, "without a limit: %v, properties %v", err, unit)
	ensure(t, m, podOf("5", "cpu=1", ""))
	testutil.Equal(t, fake.units["me-kubepods-burstable.slice"]["CPUWeight"], "79", "the weight for two processors")
	uids, err := m.Pods()
	testutil.Assert(t, err == nil && len(uids) == 2 && slices.Contains(uids, pod.UID), "pods %v, %v", uids, err)
	destroyed := 0
	m.opts.Measure = func(operation string, _ time.Time) {
		if operation == "destroy" {
			destroyed++
		}
	}
	for range 2 {
		testutil.Must(t, m.Remove(ctx, pod.UID))
	}
	testutil.Equal(t, destroyed, 1, "measured destroys of the pod's only cgroup")
	testutil.Assert(t, fake.units["me-kubepods-burstable-pod12_34.slice"] == nil, "the slice is still there")
}

// TestOneConnection: only changes are sent to systemd, over one connection that is replaced when it breaks.
func TestOneConnection(t *testing.T) {
	m, fake := sliceManager(t)
	a, b := podOf("a", "cpu=1", ""), podOf("b", "", "cpu=1 memory=1Gi")
	ensure(t, m, a, b)
	calls := fake.calls
	ensure(t, m, a, b, a, b)
	testutil.Assert(t, fake.dials == 1 && fake.calls == calls,
		"%d connections, and %d calls for cgroups that are as they should be", fake.dials, fake.calls-calls)
	fake.lost = true
	ensure(t, m, podOf("b", "", "cpu=1 memory=2Gi"))
	testutil.Assert(t, fake.dials == 2 && fake.open == 1 && fake.calls == calls+2,
		"after the connection broke and a limit changed: %d connections, %d open, %d calls", fake.dials, fake.open,
		fake.calls-calls)
	testutil.Must(t, os.RemoveAll(fake.dir("me-kubepods-podb.slice")))
	delete(fake.units, "me-kubepods-podb.slice")
	ensure(t, m, podOf("b", "", "cpu=1 memory=2Gi"))
	unit := fake.units["me-kubepods-podb.slice"]
	testutil.Assert(t, unit["MemoryMax"] == "2147483648", "a cgroup is made again after its removal with %v", unit)
}

// TestDialEnds: the dial ends with its context, and the connection outlives the call that opened it.
func TestDialEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	fake := &fakeUnits{}
	var life context.Context
	c := &connection{dial: func(ctx context.Context) (units, error) {
		life = ctx
		if fake.dials++; fake.dials > 1 {
			return fake, nil
		}
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	_, err := c.get(ctx)
	testutil.Assert(t, err != nil, "a connection that was never made")
	ctx, cancel = context.WithCancel(t.Context())
	_, err = c.get(ctx)
	testutil.Must(t, err)
	cancel()
	testutil.Assert(t, life.Err() == nil, "the connection ended with the call that opened it")
	c.close()
	testutil.Assert(t, life.Err() != nil && fake.open == -1, "the connection is open after the end")
}

func TestFailedJob(t *testing.T) {
	m, fake := sliceManager(t)
	fake.result = "failed"
	_, err := m.Ensure(context.Background(), podOf("1", "", "cpu=1 memory=1Gi"))
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "ended as failed"), "got %v", err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	testutil.Assert(t, finished(ctx, "x.slice", make(chan string)) != nil, "a job without an end was waited for")
}
