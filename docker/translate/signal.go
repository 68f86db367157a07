package translate

import (
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const criSignalPrefix = "SIGNAL_"

// stopSignal returns Docker's name of a CRI signal, such as "SIGTERM" or "SIGRTMIN+3", and "" for the runtime's
// default. It fails with errdefs.ErrInvalidArgument for a number that CRI does not have.
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
