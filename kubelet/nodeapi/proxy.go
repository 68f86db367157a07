package nodeapi

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/containerd/log"
)

const (
	// upgradeTimeout bounds how long the runtime's streaming server may take to be reached and to respond.
	upgradeTimeout = 30 * time.Second
	// lingerTime is how long a client may take to close the connection after the server did, so that it reads all that was sent before.
	lingerTime = 5 * time.Second
	// maxErrorBody bounds what is passed on of a response that is no upgrade, in bytes.
	maxErrorBody = 64 << 10
)

// proxy passes the client's request on to address and, when the server there upgrades, every byte in both directions
// until one side closes it or the request's context ends. The protocol is agreed between those two: SPDY and WebSockets
// pass through unchanged. An error means that the client got no response yet.
func proxy(w http.ResponseWriter, r *http.Request, address string) error {
	backend, response, from, err := upgrade(r, address)
	if err != nil {
		return err
	}
	defer backend.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		return copyError(r.Context(), w, response)
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer client.Close()
	if err := response.Write(client); err != nil {
		log.G(r.Context()).WithError(err).Debug("client of a stream is gone")
		return nil
	}
	relay(r.Context(), side{client, buffered.Reader}, side{backend, from})
	return nil
}

// upgrade sends the request to address and reads the head of the response; from has what follows.
func upgrade(r *http.Request, address string) (backend net.Conn, response *http.Response, from *bufio.Reader, err error) {
	location, err := url.Parse(address)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), upgradeTimeout)
	defer cancel()
	conn, err := dial(ctx, location)
	if err != nil {
		return nil, nil, nil, err
	}
	// Closing is what ends the write and the read below.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	request := r.Clone(ctx)
	request.URL, request.Host, request.Body, request.ContentLength = location, location.Host, http.NoBody, 0
	request.Header.Del("Authorization") // it is for this kubelet
	if err = request.Write(conn); err == nil {
		from = bufio.NewReader(conn)
		response, err = http.ReadResponse(from, request)
	}
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, conn.Close())
	}
	return conn, response, from, nil
}

// dial connects to the runtime's streaming server. Over TLS its certificate is not judged: the URL came over the CRI
// socket, which has no field for an authority, and holds a token.
func dial(ctx context.Context, location *url.URL) (net.Conn, error) {
	host := location.Host
	if location.Port() == "" {
		host = net.JoinHostPort(location.Hostname(), map[string]string{"http": "80", "https": "443"}[location.Scheme])
	}
	switch location.Scheme {
	case "http":
		return new(net.Dialer).DialContext(ctx, "tcp", host)
	case "https":
		return (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", host)
	default:
		return nil, fmt.Errorf("it is named by a URL of scheme %q", location.Scheme)
	}
}

// copyError passes on a response that is no upgrade.
func copyError(ctx context.Context, w http.ResponseWriter, response *http.Response) error {
	defer response.Body.Close()
	if response.StatusCode < http.StatusBadRequest {
		return fmt.Errorf("it answers %s to an upgrade", response.Status)
	}
	if kind := response.Header.Get("Content-Type"); kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	w.WriteHeader(response.StatusCode)
	if _, err := io.Copy(w, io.LimitReader(response.Body, maxErrorBody)); err != nil {
		log.G(ctx).WithError(err).Debug("error response was not passed on whole")
	}
	return nil
}

// side is one end of a session: a connection, and a reader that has what was read of it before.
type side struct {
	net.Conn
	in io.Reader
}

// relay copies between both until one is closed or ctx ends, and closes both.
func relay(ctx context.Context, client, backend side) {
	stop := context.AfterFunc(ctx, func() {
		client.Close()
		backend.Close()
	})
	defer stop()
	var copies sync.WaitGroup
	copies.Go(func() {
		_, _ = io.Copy(backend.Conn, client.in) // the protocol says how a session ended
		// A server that closed it while the client still sends: closing the connection over unread bytes would take
		// from the client what it has not read yet.
		_, _ = io.Copy(io.Discard, client.in)
		backend.Close()
	})
	copies.Go(func() {
		_, _ = io.Copy(client.Conn, backend.in)
		if half, ok := client.Conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // it may be gone
		}
		_ = client.SetReadDeadline(time.Now().Add(lingerTime))
	})
	copies.Wait()
	client.Close()
	backend.Close()
}
