package translate

import (
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const criSignalPrefix = "SIGNAL_"

// stopSignal returns Docker's name of a CRI signal, "SIGTERM" or "SIGRTMIN+3",
// and "" for the runtime's default. It fails with errdefs.ErrInvalidArgument
// for a number that CRI does not know.
func stopSignal(field string, signal runtimeapi.Signal) (string, error) {
	if signal == runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		return "", nil
	}
	name, ok := runtimeapi.Signal_name[int32(signal)]
	if !ok {
		return "", invalid(field, "%d is not a signal", int32(signal))
	}
	name = strings.TrimPrefix(name, criSignalPrefix)
	name = strings.Replace(name, "PLUS", "+", 1)
	return strings.Replace(name, "MINUS", "-", 1), nil
}

// parseStopSignal returns the CRI signal for what an image or a container has
// as its stop signal: "SIGTERM", "term", "15" or "SIGRTMIN+3". What is empty or
// unknown is the runtime's default.
func parseStopSignal(text string) runtimeapi.Signal {
	name := strings.ToUpper(strings.TrimSpace(text))
	if number, err := strconv.Atoi(name); err == nil {
		name = signalName(number)
	}
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	name = strings.Replace(name, "+", "PLUS", 1)
	name = strings.Replace(name, "-", "MINUS", 1)
	// RTMAX-14 down from the top is spelled RTMAXMINUS14 and exists up to 14;
	// an unknown name gives the zero value, which is the default.
	return runtimeapi.Signal(runtimeapi.Signal_value[criSignalPrefix+name])
}

// signalName names a signal number of Linux on amd64 and arm64, signal(7).
func signalName(number int) string {
	names := [...]string{
		1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL",
		10: "USR1", 11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT", 17: "CHLD",
		18: "CONT", 19: "STOP", 20: "TSTP", 21: "TTIN", 22: "TTOU", 23: "URG", 24: "XCPU", 25: "XFSZ",
		26: "VTALRM", 27: "PROF", 28: "WINCH", 29: "IO", 30: "PWR", 31: "SYS",
	}
	const rtMin, rtMiddle, rtMax = 34, 49, 64
	switch {
	case number > 0 && number < len(names):
		return names[number]
	case number == rtMin:
		return "RTMIN"
	case number > rtMin && number <= rtMiddle:
		return "RTMIN+" + strconv.Itoa(number-rtMin)
	case number > rtMiddle && number < rtMax:
		return "RTMAX-" + strconv.Itoa(rtMax-number)
	case number == rtMax:
		return "RTMAX"
	default:
		return ""
	}
}
