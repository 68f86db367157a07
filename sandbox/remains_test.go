package sandbox

import (
	"testing"

	"github.com/criadapter/criadapter/checkpoint"
)

func TestDecide(t *testing.T) {
	const intent, set, stopped = checkpoint.PhaseIntent, checkpoint.PhaseReady, checkpoint.PhaseStopped
	for name, tt := range map[string]struct {
		found remains
		want  action
	}{
		"nothing":                                      {remains{}, leave},
		"healthy":                                      {remains{shown: true, running: true, phase: set, joined: true, owned: true}, repair},
		"its address is lost":                          {remains{shown: true, running: true, phase: set}, repair},
		"its process has ended":                        {remains{shown: true, phase: set, joined: true}, leave},
		"its set-up or stop was cut short":             {remains{shown: true, running: true, phase: intent}, finish},
		"the same, and a reboot":                       {remains{shown: true, phase: intent}, finish},
		"stopped":                                      {remains{shown: true, phase: stopped}, leave},
		"its record is lost":                           {remains{shown: true, running: true, joined: true, owned: true}, leave},
		"the network alone has it":                     {remains{joined: true}, release},
		"a directory of it alone is there":             {remains{owned: true}, release},
		"it is being set up":                           {remains{phase: intent, joined: true, owned: true}, leave},
		"its record cannot be read":                    {remains{unread: true, joined: true, owned: true}, leave},
		"its record cannot be read, and it is running": {remains{shown: true, running: true, unread: true}, leave},
	} {
		if got := tt.found.decide(); got != tt.want {
			t.Errorf("%s: action %d, want %d", name, got, tt.want)
		}
	}
}
