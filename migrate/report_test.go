package migrate

import (
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// If free space limits the converted history of a log, the plan says so.
func TestPlanSaysThatFreeSpaceBoundsHistory(t *testing.T) {
	for name, tc := range map[string]struct {
		space space
		said  bool
	}{
		"room":    {space{total: 1000, free: 500}, false},
		"no room": {space{total: 1000, free: 200}, true},
		"little":  {space{total: 1000, free: 250}, true},
	} {
		logs := []*logPlan{{container: "app", kept: 100}, {container: "silent"}}
		tc.space.grant(logs, 1<<20)
		var out strings.Builder
		plan := Plan{pods: []*podPlan{{name: "default/web", id: "0123456789abcdef", logs: logs}}}
		testutil.Must(t, plan.Print(&out))
		if said := strings.Contains(out.String(),
			"free space bounds how much of the logs is converted: 20 % of their file system"); said != tc.said {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}
