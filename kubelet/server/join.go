package server

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

	"github.com/sirupsen/logrus"
)

const (
	// joinTimeout bounds how long the runtime's streaming server may take to be reached and to answer.
	joinTimeout = 30 * time.Second
	// lingerTime is how long a client may take to hang up after the server has, so that it reads all that was sent before.
	lingerTime = 5 * time.Second
	// maxRefusal bounds what is passed on of an answer that is no upgrade, in bytes.
	maxRefusal = 64 << 10
)

// join passes the client's request on to address and, when the server there upgrades, every byte in both directions until
// one side hangs up or the request's context ends. Whatever was agreed on is spoken by those two: this is no proxy that
// knows SPDY or WebSockets. An error means that the client got no answer yet.
func join(w http.ResponseWriter, r *http.Request, address string) error {
	backend, answer, from, err := upgrade(r, address)
	if err != nil {
		return err
	}
	defer backend.Close()
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return refuse(w, answer)
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer client.Close()
	if err := answer.Write(client); err != nil {
		logrus.WithError(err).Debug("A client of a stream is gone")
		return nil
	}
	relay(r.Context(), side{client, buffered.Reader}, side{backend, from})
	return nil
}

// upgrade sends the request to address and reads the head of the answer; from has what follows.
func upgrade(r *http.Request, address string) (backend net.Conn, answer *http.Response, from *bufio.Reader, err error) {
	location, err := url.Parse(address)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), joinTimeout)
	defer cancel()
	conn, err := dial(ctx, location)
	if err != nil {
		return nil, nil, nil, err
	}
	// Hanging up is what ends the write and the read below.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	request := r.Clone(ctx)
	request.URL, request.Host, request.Body, request.ContentLength = location, location.Host, http.NoBody, 0
	request.Header.Del("Authorization") // it is for this kubelet
	if err = request.Write(conn); err == nil {
		from = bufio.NewReader(conn)
		answer, err = http.ReadResponse(from, request)
	}
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, conn.Close())
	}
	return conn, answer, from, nil
}

// dial connects to the runtime's streaming server. Over TLS its certificate is not judged: the URL came over the CRI
// socket, which has no word for whom to trust, and holds a secret of its own.
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

// refuse passes on an answer that is no upgrade.
func refuse(w http.ResponseWriter, answer *http.Response) error {
	defer answer.Body.Close()
	if answer.StatusCode < http.StatusBadRequest {
		return fmt.Errorf("it answers %s to an upgrade", answer.Status)
	}
	if kind := answer.Header.Get("Content-Type"); kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	w.WriteHeader(answer.StatusCode)
	if _, err := io.Copy(w, io.LimitReader(answer.Body, maxRefusal)); err != nil {
		logrus.WithError(err).Debug("A refusal was not passed on whole")
	}
	return nil
}

// side is one end of a session: a connection, and a reader that has what was read of it before.
type side struct {
	net.Conn
	in io.Reader
}

// relay copies between both until one hangs up or ctx ends, and closes both.
func relay(ctx context.Context, client, backend side) {
	stop := context.AfterFunc(ctx, func() {
		client.Close()
		backend.Close()
	})
	defer stop()
	var copies sync.WaitGroup
	copies.Go(func() {
		_, _ = io.Copy(backend.Conn, client.in) // how a session ended is told inside of it
		// A server that has hung up while the client still sends: closing the connection over unread bytes would take from
		// the client what it has not read yet.
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
