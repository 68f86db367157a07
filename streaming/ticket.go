package streaming

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
)

const (
	// ticketLife is how long a URL is valid, as with other CRI runtimes.
	ticketLife = time.Minute
	// maxTickets is the largest number of unused URLs.
	maxTickets = 1000
	// tokenSize is the size of a token in bytes.
	tokenSize = 16
)

// handler serves the one request of a ticket.
type handler func(*session, http.ResponseWriter, *http.Request)

// ticket is the right to one request.
type ticket struct {
	logger  *log.Entry // the logger of the CRI request that got the ticket
	kind    string
	serve   handler
	expires time.Time
}

// tickets are the unused tickets. All methods are safe for concurrent use.
type tickets struct {
	now func() time.Time

	mu sync.Mutex
	// open is keyed by the token's hash, so that the time of a look-up reveals nothing about the tokens.
	open map[[sha256.Size]byte]ticket
}

func newTickets() *tickets {
	return &tickets{now: time.Now, open: map[[sha256.Size]byte]ticket{}}
}

// issue returns the token of a new ticket. It fails with ErrResourceExhausted while too many are unused.
func (t *tickets) issue(ctx context.Context, kind string, serve handler) (string, error) {
	var raw [tokenSize]byte
	_, _ = rand.Read(raw[:]) // never fails, see crypto/rand
	token := base64.RawURLEncoding.EncodeToString(raw[:])
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	if len(t.open) >= maxTickets {
		return "", fmt.Errorf("%d streaming URLs are unused, try again within %s: %w", maxTickets, ticketLife,
			errdefs.ErrResourceExhausted)
	}
	t.open[sha256.Sum256([]byte(token))] = ticket{logger: log.G(ctx), kind: kind, serve: serve,
		expires: t.now().Add(ticketLife)}
	return token, nil
}

// redeem returns the ticket of a valid token of that kind, once.
func (t *tickets) redeem(kind, token string) (ticket, bool) {
	key := sha256.Sum256([]byte(token))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	found, ok := t.open[key]
	if !ok || found.kind != kind {
		return ticket{}, false
	}
	delete(t.open, key)
	return found, true
}

// expire drops the expired tickets. The caller holds the lock.
func (t *tickets) expire() {
	now := t.now()
	for key, ticket := range t.open {
		if !now.Before(ticket.expires) {
			delete(t.open, key)
		}
	}
}
