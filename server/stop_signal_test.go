package server

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestSpellingsOfStopSignals(t *testing.T) {
	for text, want := range map[string]runtimeapi.Signal{
		"SIGTERM": runtimeapi.Signal_SIGNAL_SIGTERM, "term": runtimeapi.Signal_SIGNAL_SIGTERM,
		"15":      runtimeapi.Signal_SIGNAL_SIGTERM,
		"SIGQUIT": runtimeapi.Signal_SIGNAL_SIGQUIT, "3": runtimeapi.Signal_SIGNAL_SIGQUIT,
		"SIGRTMIN+3": runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3, "37": runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3,
		"RTMIN+3": runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3,
		"34":      runtimeapi.Signal_SIGNAL_SIGRTMIN, "49": runtimeapi.Signal_SIGNAL_SIGRTMINPLUS15,
		"50": runtimeapi.Signal_SIGNAL_SIGRTMAXMINUS14,
		"63": runtimeapi.Signal_SIGNAL_SIGRTMAXMINUS1, "64": runtimeapi.Signal_SIGNAL_SIGRTMAX,
		"sigusr1": runtimeapi.Signal_SIGNAL_SIGUSR1, "9": runtimeapi.Signal_SIGNAL_SIGKILL,
		"RTMAX-14": runtimeapi.Signal_SIGNAL_SIGRTMAXMINUS14,
		"":         0, "999": 0, "0": 0, "-1": 0, "32": 0, "65": 0, "nonsense": 0, "RUNTIME_DEFAULT": 0,
	} {
		testutil.Equal(t, stopSignal(text), want, "%q", text)
	}
}

func FuzzStopSignal(f *testing.F) {
	for _, seed := range []string{"SIGTERM", "TERM", "15", "SIGRTMIN+3", "", "-1", "SIG", "999999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		_, known := runtimeapi.Signal_name[int32(stopSignal(name))]
		testutil.Assert(t, known, "%q gives a signal that CRI does not have", name)
	})
}
