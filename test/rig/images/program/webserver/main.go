// Command webserver answers every HTTP request with one page until SIGTERM, SIGINT or SIGQUIT. Test images install it
// under the names of well-known web servers and give it their habits: a banner in the log, an access log on stdout, a
// pid file. The banner is a flag, so it is in the process's arguments, too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", ":80", "the `address` to serve on")
	banner := flag.String("banner", "webserver", "the `text` that starts the log")
	pidFile := flag.String("pidfile", "", "a `file` to write the process id to once the server listens")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	defer stop()
	if err := run(ctx, *listen, *banner, *pidFile); err != nil {
		fmt.Fprintln(os.Stderr, *banner+":", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, listen, banner, pidFile string) error {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // before Linux 6.3 SELinux refuses reads from connections of Multipath TCP
	socket, err := config.Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	if pidFile != "" {
		if err := os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "%s: serving on %s\n", banner, socket.Addr())
	server := &http.Server{Handler: page(banner), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func page(banner string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Printf("%s %s %s\n", r.RemoteAddr, r.Method, r.URL.Path)
		fmt.Fprintf(w, "<html><body>%s</body></html>\n", banner)
	})
}
