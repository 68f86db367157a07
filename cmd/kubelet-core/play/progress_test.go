package play

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestWorthTelling(t *testing.T) {
	for e, want := range map[*v1.Event]bool{
		{Type: v1.EventTypeWarning, Reason: "BackOff"}:           true,
		{Type: v1.EventTypeNormal, Reason: "Pulling"}:            true,
		{Type: v1.EventTypeNormal, Reason: "Started"}:            false,
		{Type: v1.EventTypeWarning, Reason: "MissingClusterDNS"}: false,
	} {
		if got := worthTelling(e); got != want {
			t.Errorf("%s %s: %v, want %v", e.Type, e.Reason, got, want)
		}
	}
}
