package sandbox

import (
	"testing"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestDecide(t *testing.T) {
	const intent, set, stopped = checkpoint.PhaseIntent, checkpoint.PhaseReady, checkpoint.PhaseStopped
	for name, tt := range map[string]struct {
		found presence
		want  action
	}{
		"nothing": {presence{}, actLeave},
		"healthy": {presence{shown: true, running: true, phase: set, joined: true,
			owned: true}, actRepair},
		"its address is lost":   {presence{shown: true, running: true, phase: set}, actRepair},
		"its process has ended": {presence{shown: true, phase: set, joined: true}, actLeave},
		"its set-up or stop was cut short": {presence{shown: true, running: true, phase: intent},
			actFinish},
		"the same, and a reboot": {presence{shown: true, phase: intent}, actFinish},
		"stopped":                {presence{shown: true, phase: stopped}, actLeave},
		"its record is lost": {presence{shown: true, running: true, joined: true,
			owned: true}, actLeave},
		"the network alone has it":         {presence{joined: true}, actRelease},
		"a directory of it alone is there": {presence{owned: true}, actRelease},
		"it is being set up":               {presence{phase: intent, joined: true, owned: true}, actLeave},
		"its record cannot be read": {presence{unreadable: true, joined: true, owned: true},
			actLeave},
		"its record cannot be read, and it is running": {presence{shown: true, running: true, unreadable: true},
			actLeave},
	} {
		testutil.Equal(t, tt.found.decide(), tt.want, "%s: action", name)
	}
}
