package podconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
)

// URLOptions configure a URLSource. URL is required.
type URLOptions struct {
	// URL answers with a manifest: one pod, a PodList, or several YAML documents of these.
	URL string
	// Header is sent with each request.
	Header http.Header
	// NodeName is this node's name.
	NodeName string
	// Every is the time between two requests. Zero means 20 seconds, as in the kubelet. A request's timeout is 10
	// seconds or nine tenths of Every, whichever is less, so a hanging request does not delay the next one.
	Every time.Duration
	// client sends the requests. Its Timeout and CheckRedirect are replaced. Nil means one like http.DefaultClient.
	client *http.Client
	// Problem is called when the problem of the URL or its answer changes, and with nil when it is over. Nil logs it.
	Problem func(where string, err error)
}

// URLSource is the source of static pods from a web server.
//
// A failed or unreadable answer removes nothing: earlier pods run on until an answer without errors leaves them out. An
// empty body is reported as an error, but it ends all pods of the URL, as in the kubelet.
type URLSource struct {
	opts   URLOptions
	config *PodConfig
	// etag is the server's version of the known document, or empty.
	etag  string
	known document
}

// requestTimeout is the longest timeout of a request, as in the kubelet.
const requestTimeout = 10 * time.Second

// NewURLSource makes the source. It does nothing before Run.
func NewURLSource(opts URLOptions, config *PodConfig) *URLSource {
	opts.Every = cmp.Or(opts.Every, 20*time.Second)
	client := &http.Client{}
	if opts.client != nil {
		*client = *opts.client
	}
	client.Timeout = min(requestTimeout, opts.Every*9/10)
	client.CheckRedirect = sameServer
	opts.client = client
	return &URLSource{opts: opts, config: config}
}

// sameServer follows redirects within one server. Another server must neither receive the headers nor supply pods.
func sameServer(next *http.Request, before []*http.Request) error {
	first := before[0].URL
	if next.URL.Scheme != first.Scheme || next.URL.Host != first.Host {
		return fmt.Errorf("it redirects to another server, %s: configure that URL if you trust it: %w",
			(&url.URL{Scheme: next.URL.Scheme, Host: next.URL.Host}).Redacted(), errdefs.ErrPermissionDenied)
	}
	if len(before) >= 10 {
		return errors.New("it redirects more than ten times")
	}
	return nil
}

// Run requests the URL and sets its pods until ctx ends, and then returns ctx's error. The URL's pods from the
// checkpoint run on until the URL answers. So PodConfig.Restore must be called before Run.
func (u *URLSource) Run(ctx context.Context) error {
	defer u.opts.client.CloseIdleConnections()
	u.known.pods = u.config.acceptedFrom(model.SourceHTTP, u.shownURL())
	ticker := time.NewTicker(u.opts.Every)
	defer ticker.Stop()
	for {
		if err := u.poll(ctx); err != nil && ctx.Err() == nil {
			log.G(ctx).WithError(err).WithField("source", model.SourceHTTP).
				Error("pods of the manifest URL cannot be set")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// poll makes one request. It sets the pods even without a change, because a source counts as seen only after a call of
// Set.
func (u *URLSource) poll(ctx context.Context) error {
	content, etag, err := u.get(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case err != nil:
		u.known.report(ctx, u.opts.Problem, u.shownURL(), err)
		return nil // earlier pods stay, because the failure may be temporary
	case content == nil: // not modified
		err = u.known.err
	case len(content) == 0:
		err = errors.New("the answer is empty: all pods of this URL end")
		u.known = document{reported: u.known.reported, err: err}
	default:
		err = u.known.read(content, manifest.Origin{Source: model.SourceHTTP, Location: u.shownURL(),
			NodeName: u.opts.NodeName, Seen: time.Now()})
	}
	u.etag = etag
	if !u.known.objects.Empty() {
		err = errors.Join(err, errors.New("a URL can only have pods: put other objects into the manifest directory"))
	}
	u.known.report(ctx, u.opts.Problem, u.shownURL(), err)
	return u.config.Set(ctx, model.SourceHTTP, u.known.pods)
}

// get returns the answer, or nil if the document still has the version etag.
func (u *URLSource) get(ctx context.Context) (content []byte, etag string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.opts.URL, nil)
	if err != nil {
		return nil, "", u.plain(err)
	}
	for name, values := range u.opts.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	if host := u.opts.Header.Get("Host"); host != "" {
		request.Host = host // net/http ignores the Host header
	}
	if u.etag != "" {
		request.Header.Set("If-None-Match", u.etag)
	}
	response, err := u.opts.client.Do(request)
	if err != nil {
		return nil, "", u.plain(err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotModified && u.etag != "" {
		return nil, u.etag, nil
	}
	if response.StatusCode != http.StatusOK {
		return nil, "", fmt.Errorf("the answer is %s", response.Status)
	}
	content, err = io.ReadAll(io.LimitReader(response.Body, maxManifest+1))
	if isTimeout(err) {
		return nil, "", u.plain(err)
	}
	if err != nil {
		return nil, "", fmt.Errorf("the answer is incomplete: %w", u.plain(err))
	}
	if len(content) > maxManifest {
		return nil, "", fmt.Errorf("the answer has more than %d bytes", maxManifest)
	}
	return content, response.Header.Get("ETag"), nil
}

// isTimeout reports whether a request took too long.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// plain returns the error without the URL and the local port. The URL is reported separately, and may have a password.
// The port differs each time, and a problem must be reported only once. For the same reason all timeouts have one text:
// net/http has several, and a race of two timers decides which one it returns.
func (u *URLSource) plain(err error) error {
	if isTimeout(err) {
		return fmt.Errorf("no complete answer within %s: %w", u.opts.client.Timeout, context.DeadlineExceeded)
	}
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	var network *net.OpError
	if errors.As(err, &network) {
		bare := *network
		bare.Source = nil
		return &bare
	}
	return err
}

// shownURL returns the URL for messages and annotations, without its password and query. The API server shows
// annotations, and the query may have a password, too. So a changed password does not replace the pods.
func (u *URLSource) shownURL() string {
	parsed, err := url.Parse(u.opts.URL)
	if err != nil {
		return "the manifest URL"
	}
	if parsed.RawQuery != "" {
		parsed.RawQuery = "xxxxx"
	}
	return parsed.Redacted()
}
