package cni

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestStatusReasons(t *testing.T) {
	s := newSandbox(t)
	s.configure("net.conflist", `{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"fake","ipam":{"type":"built-in"}},{"type":"ports"}]}`)
	n := s.network()
	ctx := context.Background()
	expect := func(text string) {
		t.Helper()
		err := n.Status(ctx)
		testutil.Assert(t, errdefs.IsUnavailable(err) && strings.Contains(err.Error(), text),
			"want %q, got %v", text, err)
	}
	expect(`"fake" is not in ` + strings.Join(s.options.BinDirs, ", "))
	s.plugin("fake")
	expect(`"ports" is not in`)
	s.plugin("ports")
	must(t, n.Status(ctx))
	if s.calls() != "" {
		t.Errorf("version 1.0.0 has no STATUS, ran %s", s.calls())
	}
	must(t, os.Remove(filepath.Join(s.bin, "fake")))
	expect(`"fake" is not in`)
	must(t, os.Remove(filepath.Join(s.conf, "net.conflist")))
	s.expect(n, "")
	expect("no CNI configuration in " + s.conf + " yet")
	must(t, os.RemoveAll(s.conf))
	testutil.WriteFile(t, s.conf, "")
	testutil.Until(t, "directory that is a file", func() bool { return n.current.Load().err != nil })
	expect("not a directory")
}

func TestStatusAsksThePlugins(t *testing.T) {
	s := newSandbox(t)
	s.plugin("fake")
	s.plugin("ports")
	s.configure("net.conflist", strings.Replace(chain, "1.0.0", "1.1.0", 1))
	s.options.statusTTL = time.Hour
	n := s.network()
	ctx := context.Background()

	s.script("fake.STATUS", `echo '{"code":4,"msg":"unknown CNI_COMMAND: STATUS"}'; exit 1`)
	for range 3 {
		must(t, n.Status(ctx))
	}
	testutil.Equal(t, s.calls(), "fake.STATUS ports.STATUS", "three calls ran")

	// The answer for one configuration is not reused for another.
	s.script("ports.STATUS", `echo '{"code":50,"msg":"agent is down"}'; exit 1`)
	s.configure("0.conflist", strings.NewReplacer("1.0.0", "1.1.0", `"net"`, `"other"`).Replace(chain))
	s.expect(n, "other")
	err := n.Status(ctx)
	testutil.Assert(t, errdefs.IsUnavailable(err) && strings.Contains(err.Error(), "agent is down") &&
		strings.Contains(err.Error(), `"ports"`), "got %v", err)
}

func TestStatusAnswerExpires(t *testing.T) {
	s := withFake(t, "1.1.0")
	s.options.statusTTL = time.Nanosecond
	n := s.network()
	s.script("fake.STATUS", `exit 1`)
	err := n.Status(context.Background())
	testutil.Assert(t, errdefs.IsUnavailable(err), "got %v", err)
	s.script("fake.STATUS", "")
	must(t, n.Status(context.Background()))
}

func TestStatusOfACallerThatGivesUpIsNotKept(t *testing.T) {
	s := withFake(t, "1.1.0")
	s.options.statusTTL = time.Hour
	n := s.network()
	s.script("fake.STATUS", `sleep 300`)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	waiting := testutil.Go(func() error { return n.Status(ctx) })
	err := n.Status(ctx)
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "got %v", err)
	err = <-waiting
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "got %v", err)
	s.script("fake.STATUS", "")
	must(t, n.Status(context.Background()))
}
