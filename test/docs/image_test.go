package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestComposeFileIsTheDockerfilesCommand compares examples/compose.yaml with the command in the Dockerfile's comment,
// which `make image-test` runs.
func TestComposeFileIsTheDockerfilesCommand(t *testing.T) {
	dockerfile := testutil.ReadFile(t, filepath.Join(root, "Dockerfile"))
	var want []string
	for _, m := range regexp.MustCompile(`--volume (\S+)`).FindAllStringSubmatch(dockerfile, -1) {
		want = append(want, m[1])
	}
	text := testutil.ReadFile(t, filepath.Join(root, "examples", "compose.yaml"))
	var compose struct {
		Services map[string]struct {
			Privileged  bool     `json:"privileged"`
			PID         string   `json:"pid"`
			NetworkMode string   `json:"network_mode"`
			Cgroup      string   `json:"cgroup"`
			Volumes     []string `json:"volumes"`
		} `json:"services"`
	}
	testutil.Must(t, yaml.Unmarshal([]byte(text), &compose))
	s := compose.Services["criadapter"]
	testutil.Assert(t, len(want) != 0 && slices.Equal(s.Volumes, want),
		"the volumes are\n%q, the Dockerfile's\n%q", s.Volumes, want)
	testutil.Assert(t, s.Privileged && s.PID == "host" && s.NetworkMode == "host" && s.Cgroup == "host",
		"the container is not in the node's namespaces: %+v", s)
}
