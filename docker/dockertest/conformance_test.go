package dockertest_test

import (
	"testing"

	"github.com/criadapter/criadapter/docker/dockertest"
)

func TestConformance(t *testing.T) {
	for name, flavor := range map[string]dockertest.Flavor{"Docker20": dockertest.Docker20, "Docker29": dockertest.Docker29} {
		t.Run(name, func(t *testing.T) {
			engine := dockertest.New(dockertest.Options{
				Flavor:   flavor,
				Images:   []dockertest.Image{{Names: []string{"busybox:1.36"}}},
				Registry: []dockertest.Image{{Names: []string{"registry.example/hello:1"}, Layers: []int64{10, 20}}},
				Programs: dockertest.ConformancePrograms(),
			})
			defer engine.Close()
			dockertest.Conformance(t, dockertest.Subject{
				Engine:   engine,
				Image:    "busybox:1.36",
				Pullable: "registry.example/hello:1",
				Absent:   "registry.example/absent:1",
				Prefix:   "conformance",
			})
		})
	}
}
