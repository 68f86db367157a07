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
		"nothing":                             {presence{}, actLeave},
		"healthy":                             {presence{shown: true, phase: set, joined: true, owned: true}, actLeave},
		"its address is lost":                 {presence{shown: true, phase: set}, actLeave},
		"its set-up or stop was cut short":    {presence{shown: true, phase: intent}, actFinish},
		"stopped":                             {presence{shown: true, phase: stopped}, actLeave},
		"its record is lost":                  {presence{shown: true, joined: true, owned: true}, actLeave},
		"the network alone has it":            {presence{joined: true}, actRelease},
		"a directory of it alone is there":    {presence{owned: true}, actRelease},
		"it is being set up":                  {presence{phase: intent, joined: true, owned: true}, actLeave},
		"its record cannot be read":           {presence{unreadable: true, joined: true, owned: true}, actLeave},
		"a shown pod's record cannot be read": {presence{shown: true, unreadable: true}, actLeave},
	} {
		testutil.Equal(t, tt.found.decide(), tt.want, "%s: action", name)
	}
}
