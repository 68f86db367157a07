package play

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestWorthTelling(t *testing.T) {
	for e, want := range map[*v1.Event]bool{
		{Type: v1.EventTypeWarning, Reason: "BackOff"}:           true,
		{Type: v1.EventTypeNormal, Reason: "Pulling"}:            true,
		{Type: v1.EventTypeNormal, Reason: "Started"}:            false,
		{Type: v1.EventTypeWarning, Reason: "MissingClusterDNS"}: false,
	} {
		testutil.Equal(t, worthTelling(e), want, "%s %s", e.Type, e.Reason)
	}
}
