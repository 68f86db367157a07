package server

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// stopSignal converts a signal in the engine's spelling: "SIGTERM", "term", "15" or "SIGRTMIN+3". It returns the
// runtime's default for a signal that CRI does not have.
func stopSignal(text string) runtimeapi.Signal {
	name := strings.ToUpper(strings.TrimSpace(text))
	if number, err := strconv.Atoi(name); err == nil {
		name = signalName(number)
	}
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	name = strings.Replace(name, "+", "PLUS", 1)
	name = strings.Replace(name, "-", "MINUS", 1)
	// An unknown name gives the zero value, which is the default.
	return runtimeapi.Signal(runtimeapi.Signal_value["SIGNAL_"+name])
}

// signalName returns the name of a Linux signal on amd64 and arm64, see signal(7). It returns "" for an unknown number.
func signalName(number int) string {
	const rtMin, rtMiddle, rtMax = 34, 49, 64
	switch {
	case number == rtMin:
		return "RTMIN"
	case number > rtMin && number <= rtMiddle:
		return "RTMIN+" + strconv.Itoa(number-rtMin)
	case number > rtMiddle && number < rtMax:
		return "RTMAX-" + strconv.Itoa(rtMax-number)
	case number == rtMax:
		return "RTMAX"
	default:
		return unix.SignalName(unix.Signal(number))
	}
}
