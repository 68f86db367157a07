package kubelet

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/kubelet/cri"
)

// recursiveReadOnly says whether the runtime's default handler can make mounts read-only with all below them. One that
// does not say cannot.
func recursiveReadOnly(ctx context.Context, runtime *cri.Runtime) bool {
	status, err := runtime.Status(ctx, false)
	if err != nil {
		logrus.WithError(err).Info("The runtime does not tell its features: nothing that it may lack is asked of it")
		return false
	}
	for _, handler := range status.GetRuntimeHandlers() {
		if handler.GetName() == "" {
			return handler.GetFeatures().GetRecursiveReadOnlyMounts()
		}
	}
	return false
}
