package dockertest_test

import (
	"testing"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// newSubject returns an engine in memory with the features and images that the suites need.
func newSubject(t *testing.T, flavor dockertest.Flavor) (*dockertest.Engine, dockertest.Subject) {
	t.Helper()
	features := dockertest.DefaultFeatures(flavor)
	features.LiveRestore = true
	engine := dockertest.New(dockertest.Options{
		Flavor:   flavor,
		Features: features,
		Images:   []dockertest.Image{{Names: []string{"busybox:1.36"}}},
		Registry: []dockertest.Image{{Names: []string{"registry.example/hello:1"}, Layers: 2}},
		Programs: dockertest.ConformancePrograms(),
	})
	t.Cleanup(engine.Close)
	return engine, dockertest.Subject{
		Engine:   engine,
		Image:    "busybox:1.36",
		Pullable: "registry.example/hello:1",
		Absent:   "registry.example/absent:1",
		Prefix:   "conformance",
	}
}

func TestConformance(t *testing.T) {
	for name, flavor := range map[string]dockertest.Flavor{"Docker20": dockertest.Docker20,
		"Docker29": dockertest.Docker29} {
		t.Run(name, func(t *testing.T) {
			engine, subject := newSubject(t, flavor)
			dockertest.Conformance(t, subject)
			t.Run("Absence", func(t *testing.T) {
				kill := func(pid int) { testutil.Must(t, engine.SignalPID(pid, "SIGKILL")) }
				dockertest.ConformanceAbsence(t, subject, engine.Crash, kill, engine.Back)
			})
		})
	}
}
