// Package httpget connects to containers and makes the requests of httpGet probes and hooks, as pkg/probe does.
package httpget

import (
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

// Dialer connects to a container. It closes a connection for good within a second (SO_LINGER): many probes would else
// leave as many ports of the node in TIME_WAIT for a minute each, until none is left.
func Dialer() *net.Dialer {
	return &net.Dialer{Control: func(_, _ string, conn syscall.RawConn) error {
		var failed error
		err := conn.Control(func(fd uintptr) {
			failed = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 1})
		})
		return errors.Join(err, failed)
	}}
}

// Client makes one request within the timeout, 0 for the request's context alone: it trusts any certificate, goes
// through no proxy of the environment, keeps no connection, asks for no compressed answer, and follows redirects on one
// host only.
func Client(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // it asks a pod of this node, by its address
			DisableKeepAlives: true, DisableCompression: true,
			DialContext: Dialer().DialContext,
		},
		CheckRedirect: func(request *http.Request, via []*http.Request) error {
			if request.URL.Hostname() != via[0].URL.Hostname() {
				return http.ErrUseLastResponse // it counts as success, as for the kubelet
			}
			if len(via) >= maxRedirects {
				return fmt.Errorf("stopped after %d redirects", maxRedirects)
			}
			return nil
		},
	}
}

// Request makes the request of an action of the container: to its own host, or else to the pod's address ip. A Host
// header names the host that is asked for, a path may lack its slash.
func Request(ctx context.Context, get *v1.HTTPGetAction, container *v1.Container, ip, userAgent string) (*http.Request, error) {
	port, err := model.ResolvePort(get.Port, container)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(get.Path)
	if err != nil || target.Opaque != "" { // it is no URL, and asked for as it stands
		target = &url.URL{Path: get.Path}
	}
	host := get.Host
	if host == "" {
		host = ip
	}
	if host == "" {
		return nil, errors.New("the pod has no address to ask")
	}
	target.Scheme, target.Host = strings.ToLower(string(get.Scheme)), net.JoinHostPort(host, strconv.Itoa(port))
	if target.Scheme == "" {
		target.Scheme = "http"
	}
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
}
