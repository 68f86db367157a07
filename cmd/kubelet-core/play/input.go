package play

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/containerd/errdefs"
)

// Input names the files of a play, with the command line's additions to their pods.
type Input struct {
	// Files are paths, URLs or "-". In is read for "-".
	Files []string
	In    io.Reader
	// ConfigMaps are paths or URLs of files with config maps and nothing else.
	ConfigMaps []string
	// Publish has ports of the machine, as [[IP:]PORT:]CONTAINERPORT[/PROTOCOL], also as ranges. PublishAll publishes
	// all ports of the containers on the same ports of the machine.
	Publish    []string
	PublishAll bool
	// Network is the pods' network: bridge, host, or "" for the network in the files.
	Network string
	// Annotations are set on all pods.
	Annotations map[string]string
}

// Limits for a file from a web server: its size in bytes, and the time for the download.
const (
	maxDownload    = 10 << 20
	downloadPeriod = time.Minute
)

// read returns the content of a file, of a URL or of In.
func (i *Input) read(ctx context.Context, file string) ([]byte, error) {
	switch {
	case file == "-":
		return io.ReadAll(i.In)
	case IsURL(file):
		return download(ctx, file)
	default:
		return os.ReadFile(file)
	}
}

// IsURL says whether a file is read from a web server.
func IsURL(file string) bool {
	return strings.HasPrefix(file, "http://") || strings.HasPrefix(file, "https://")
}

func download(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadPeriod)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", withoutURL(err), errdefs.ErrInvalidArgument)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the web server answers %s: %w", response.Status, errdefs.ErrUnavailable)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, maxDownload+1))
	if err == nil && len(content) > maxDownload {
		err = fmt.Errorf("it has more than %d MiB: %w", maxDownload>>20, errdefs.ErrInvalidArgument)
	}
	return content, err
}

// withoutURL removes the URL from an error, because it may have a password and the caller names it.
func withoutURL(err error) error {
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// shown is the name of a file in messages. It hides the password of a URL.
func shown(file string) string {
	if parsed, err := url.Parse(file); err == nil && IsURL(file) {
		return parsed.Redacted()
	}
	return file
}
