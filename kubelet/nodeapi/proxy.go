package nodeapi

import (
	"bufio"
	"bytes"
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

	"github.com/criadapter/criadapter/internal/linger"
)

const (
	// upgradeTimeout bounds the connection to the runtime's streaming server and its response.
	upgradeTimeout = 30 * time.Second
	// readTimeout is how long a client may stop reading a log, or the rest of the output after its session has ended.
	// It is the default of a kubelet's --streaming-connection-idle-timeout.
	readTimeout = 4 * time.Hour
	// maxErrorBody is the limit in bytes for the body of a response without an upgrade.
	maxErrorBody = 64 << 10
)

// proxy passes the client's request on to address. If the server upgrades, proxy copies every byte in both directions
// until one side closes the connection or the request's context ends. Client and server agree on the protocol: SPDY and
// WebSockets pass through unchanged. An error means that the client got no response yet.
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
	// Only the buffered data is read from buffered. Any other read from buffered would end the request's context at the
	// deadlines of linger.Wait.
	early, _ := buffered.Peek(buffered.Reader.Buffered())
	relay(r.Context(), side{client, io.MultiReader(bytes.NewReader(early), client)}, side{backend, from})
	return nil
}

// upgrade sends the request to address and reads the head of the response. from has the response's body and all later
// data.
func upgrade(
	r *http.Request, address string,
) (backend net.Conn, response *http.Response, from *bufio.Reader, err error) {
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
	// Closing the connection ends the write and the read below.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	request := r.Clone(ctx)
	request.URL, request.Host, request.Body, request.ContentLength = location, location.Host, http.NoBody, 0
	request.Header.Del("Authorization") // these credentials are for this kubelet only
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

// dial connects to the runtime's streaming server. Over TLS it does not verify the certificate. The URL has a token and
// came over the CRI socket, and the CRI has no field for an authority.
func dial(ctx context.Context, location *url.URL) (net.Conn, error) {
	host := location.Host
	if location.Port() == "" {
		host = net.JoinHostPort(location.Hostname(), map[string]string{"http": "80", "https": "443"}[location.Scheme])
	}
	switch location.Scheme {
	case "http":
		return new(net.Dialer).DialContext(ctx, "tcp", host)
	case "https":
		return (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}).DialContext(
			ctx, "tcp", host)
	default:
		return nil, fmt.Errorf("the scheme %q of its URL is neither http nor https", location.Scheme)
	}
}

// copyError passes on a response without an upgrade.
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
		log.G(ctx).WithError(err).Debug("error response was not passed on completely")
	}
	return nil
}

// side is one end of a session: a connection, and a reader that begins with the data that was already read from it.
type side struct {
	net.Conn
	in io.Reader
}

// relay copies between both sides until one is closed or ctx ends, and closes both. When the backend has closed, the
// client has time to read the rest.
func relay(ctx context.Context, client, backend side) {
	stop := context.AfterFunc(ctx, func() {
		client.Close()
		backend.Close()
	})
	defer stop()
	var copies sync.WaitGroup
	copies.Go(func() {
		_, _ = io.Copy(backend.Conn, client.in) // client and server report errors in their own protocol
		// If the server has closed, its last output may still be on the way to the client. So the client's further
		// input is discarded until the client closes.
		_, _ = io.Copy(io.Discard, client.in)
		backend.Close()
	})
	copies.Go(func() {
		_, _ = io.Copy(client.Conn, backend.in)
		if encrypted, ok := client.Conn.(*tls.Conn); ok {
			_ = encrypted.CloseWrite() // the client may be gone
			if tcp, ok := encrypted.NetConn().(*net.TCPConn); ok {
				linger.Wait(tcp, linger.Grace, readTimeout)
			}
		}
		client.Close()
	})
	copies.Wait()
	backend.Close()
}
