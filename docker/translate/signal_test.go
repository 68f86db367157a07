package translate

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestStopSignals(t *testing.T) {
	for number := range runtimeapi.Signal_name {
		cri := runtimeapi.Signal(number)
		name, err := stopSignal("stop_signal", cri)
		testutil.Must(t, err)
		back := parseStopSignal(name)
		testutil.Assert(t, back == cri, "%s is %q to Docker and %s to CRI", cri, name, back)
		if name != "" && !strings.HasPrefix(name, "SIG") {
			t.Errorf("%s is %q to Docker", cri, name)
		}
	}
}

func TestParseStopSignal(t *testing.T) {
	for text, want := range map[string]runtimeapi.Signal{
		"SIGTERM": runtimeapi.Signal_SIGNAL_SIGTERM, "term": runtimeapi.Signal_SIGNAL_SIGTERM,
		"15":      runtimeapi.Signal_SIGNAL_SIGTERM,
		"SIGQUIT": runtimeapi.Signal_SIGNAL_SIGQUIT, "3": runtimeapi.Signal_SIGNAL_SIGQUIT,
		"SIGRTMIN+3": runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3, "37": runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3,
		"RTMIN+3": runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3,
		"34":      runtimeapi.Signal_SIGNAL_SIGRTMIN, "49": runtimeapi.Signal_SIGNAL_SIGRTMINPLUS15,
		"50": runtimeapi.Signal_SIGNAL_SIGRTMAXMINUS14,
		"63": runtimeapi.Signal_SIGNAL_SIGRTMAXMINUS1, "64": runtimeapi.Signal_SIGNAL_SIGRTMAX,
		"": 0, "0": 0, "-1": 0, "32": 0, "65": 0, "nonsense": 0, "RUNTIME_DEFAULT": 0,
	} {
		testutil.Equal(t, parseStopSignal(text), want, "%q", text)
	}
}

// Images may give numbers, which must mean what they mean to the kernel.
func TestSignalNumbers(t *testing.T) {
	const lastStandard = 31
	for number := 1; number <= lastStandard; number++ {
		want := strings.TrimPrefix(unix.SignalName(syscall.Signal(number)), "SIG")
		testutil.Equal(t, signalName(number), want, "%d is called", number)
	}
}
