package translate

import (
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestStopSignals(t *testing.T) {
	names := map[string]runtimeapi.Signal{}
	for number := range runtimeapi.Signal_name {
		cri := runtimeapi.Signal(number)
		name, err := stopSignal("stop_signal", cri)
		testutil.Must(t, err)
		testutil.Assert(t, names[name] == 0, "%s and %s have the same name, %q", cri, names[name], name)
		names[name] = cri
		testutil.Assert(t, name == "" || strings.HasPrefix(name, "SIG"), "%s has the name %q", cri, name)
	}
}
