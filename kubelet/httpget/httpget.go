// Package httpget connects to containers and makes the requests of httpGet probes and hooks, as pkg/probe does.
package httpget

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// maxRedirects is how many redirects are followed.
const maxRedirects = 10

// Dialer connects to containers. Connections close within a second (SO_LINGER). Otherwise each probe would leave a port
// of the node in TIME_WAIT for a minute, until all ports are used.
func Dialer() *net.Dialer {
	return &net.Dialer{Control: func(_, _ string, conn syscall.RawConn) error {
		var failed error
		err := conn.Control(func(fd uintptr) {
			failed = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 1})
		})
		return errors.Join(err, failed)
	}}
}

// Client returns a client for one request. The timeout bounds the request; with 0 only the request's context bounds it.
// The client trusts any certificate, uses no proxy, and keeps no connection. It does not ask for compression, and
// follows redirects only on the same host. Over TLS it speaks HTTP/2 if the server does, as the kubelet's client does.
func Client(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{
				InsecureSkipVerify: true}, //nolint:gosec // it asks a pod of this node, by its address
			DisableKeepAlives: true, DisableCompression: true,
			DialContext:       Dialer().DialContext,
			ForceAttemptHTTP2: true, // over TLS; otherwise a custom DialContext turns HTTP/2 off
		},
		CheckRedirect: func(request *http.Request, via []*http.Request) error {
			if request.URL.Hostname() != via[0].URL.Hostname() {
				return http.ErrUseLastResponse // the redirect counts as success, as in the kubelet
			}
			if len(via) >= maxRedirects {
				return fmt.Errorf("stopped after %d redirects", maxRedirects)
			}
			return nil
		},
	}
}

// Request makes the request of an action: to the action's host, or else to the pod's address ip. A Host header sets the
// request's host. The path may lack its slash.
func Request(
	ctx context.Context, get *v1.HTTPGetAction, container *v1.Container, ip, userAgent string,
) (*http.Request, error) {
	port, err := model.ResolvePort(get.Port, container)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(get.Path)
	if err != nil || target.Opaque != "" { // the text is no URL, so the whole text is the path
		target = &url.URL{Path: get.Path}
	}
	host := cmp.Or(get.Host, ip)
	if host == "" {
		return nil, errors.New("the pod has no address to ask")
	}
	target.Scheme = cmp.Or(strings.ToLower(string(get.Scheme)), "http")
	target.Host = net.JoinHostPort(host, strconv.Itoa(port))
	if target.Path != "" && !strings.HasPrefix(target.Path, "/") {
		target.Path = "/" + target.Path
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	setHeaders(request, get.HTTPHeaders, userAgent)
	return request, nil
}

// setHeaders sets the headers of a request. An action may replace the defaults, or remove them with an empty value.
func setHeaders(request *http.Request, headers []v1.HTTPHeader, userAgent string) {
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set("Accept", "*/*")
	for _, header := range headers {
		if strings.EqualFold(header.Name, "Host") {
			request.Host = header.Value
			continue
		}
		switch key := http.CanonicalHeaderKey(header.Name); key {
		case "User-Agent", "Accept":
			request.Header.Set(key, header.Value)
		default:
			request.Header.Add(key, header.Value)
		}
	}
	if request.Header.Get("Accept") == "" { // net/http leaves out an empty User-Agent by itself
		request.Header.Del("Accept")
	}
}
