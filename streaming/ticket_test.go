package streaming

import (
	"encoding/base64"
	"net/http"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

func serveNothing(*session, http.ResponseWriter, *http.Request) {}

func TestTicketIsForOneUse(t *testing.T) {
	tickets := newTickets()
	token, err := tickets.issue(t.Context(), kindExec, serveNothing)
	testutil.Must(t, err)
	for _, wrong := range [][2]string{{kindAttach, token}, {kindExec, ""}, {kindExec, token[1:]},
		{kindExec, token + "A"}} {
		_, ok := tickets.redeem(wrong[0], wrong[1])
		testutil.Assert(t, !ok, "%q is good for %s", wrong[1], wrong[0])
	}
	_, ok := tickets.redeem(kindExec, token)
	testutil.Assert(t, ok, "a new token is not good")
	_, ok = tickets.redeem(kindExec, token)
	testutil.Assert(t, !ok, "a used token is good")
}

func TestTicketExpires(t *testing.T) {
	now := time.Now()
	tickets := newTickets()
	tickets.now = func() time.Time { return now }
	early, _ := tickets.issue(t.Context(), kindExec, serveNothing)
	now = now.Add(time.Second)
	late, _ := tickets.issue(t.Context(), kindExec, serveNothing)
	now = now.Add(ticketLife - time.Second)
	_, ok := tickets.redeem(kindExec, early)
	testutil.Assert(t, !ok, "an expired token is good")
	_, ok = tickets.redeem(kindExec, late)
	testutil.Assert(t, ok, "a token that is not expired is not good")
	testutil.Assert(t, len(tickets.open) == 0, "%d tickets are kept for nothing", len(tickets.open))
}

func TestTicketsAreBounded(t *testing.T) {
	now := time.Now()
	tickets := newTickets()
	tickets.now = func() time.Time { return now }
	for range maxTickets {
		_, err := tickets.issue(t.Context(), kindExec, serveNothing)
		testutil.Must(t, err)
	}
	_, err := tickets.issue(t.Context(), kindExec, serveNothing)
	testutil.Fails(t, err, errdefs.IsResourceExhausted, "one too many")
	now = now.Add(ticketLife)
	_, err = tickets.issue(t.Context(), kindExec, serveNothing)
	testutil.Check(t, err, "when the others have expired")
}

func TestTokensHave128Bits(t *testing.T) {
	tickets := newTickets()
	seen := map[string]bool{}
	for range 100 {
		token, err := tickets.issue(t.Context(), kindExec, serveNothing)
		testutil.Must(t, err)
		raw, err := base64.RawURLEncoding.DecodeString(token)
		testutil.Assert(t, err == nil && len(raw)*8 == 128 && !seen[token],
			"token %q: %d bits, %v, seen %t", token, len(raw)*8, err, seen[token])
		seen[token] = true
	}
}
