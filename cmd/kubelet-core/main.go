// Command kubelet-core runs the pods of a manifest directory, of a URL or of an API server on any CRI runtime. The
// kubelet of Kubernetes does the same. Like kubectl, kubelet-core also shows these pods, without a cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/criadapter/criadapter/cmd/kubelet-core/client"
	"github.com/criadapter/criadapter/cmd/kubelet-core/command"
)

// version is set at link time.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := command.Root(version).ExecuteContext(ctx); err != nil {
		var exit *client.ExitError
		if errors.As(err, &exit) {
			os.Exit(exit.Code) // the exit code of check, or of the command in the container
		}
		fmt.Fprintf(os.Stderr, "kubelet-core: %v\n", err)
		os.Exit(1)
	}
}
