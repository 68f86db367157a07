package bootunit

import (
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestText checks that the unit escapes what systemd would change in a command. It also checks that the unit's stop
// timeout is longer than the pods' grace period.
func TestText(t *testing.T) {
	play := Play{Name: "a b", Program: "/usr/bin/kubelet-core", Dir: "/srv/50%",
		Args: []string{"play", "--annotation=a=$x; %n", `--name="`, "", "web.yaml"}, Grace: 1500 * time.Millisecond}
	text := play.text()
	for _, want := range []string{
		`ExecStart=/usr/bin/kubelet-core play "--annotation=a=$$x; %%n" "--name=\"" "" web.yaml` + "\n",
		"WorkingDirectory=/srv/50%%\n", "TimeoutStopSec=32\n", `--uninstall --name "a b" removes`,
	} {
		testutil.Assert(t, strings.Contains(text, want), "no %q in\n%s", want, text)
	}
	testutil.Equal(t, Unit("a b"), `kubelet-core-play-a\x20b.service`, "name of the unit")
}
