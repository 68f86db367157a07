package docker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/types/system"

	"github.com/criadapter/criadapter/internal/ocinote"
)

// probed is an engine in memory with the runtime, whose containers all are one process with the group of probes.
type probed struct {
	*fakeServer
	starts, failing atomic.Int64
}

func newProbed(t *testing.T) *probed {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Groups: []uint32{probeGroup}}, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Skip("needs root: ", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p := &probed{fakeServer: newFakeServer(t)}
	id, notes := strings.Repeat("0a", 32), t.TempDir()
	p.change(func() {
		p.info.Runtimes = map[string]system.RuntimeWithStatus{
			"runc":       {Runtime: system.Runtime{Path: "runc"}},
			"criadapter": {Runtime: system.Runtime{Path: "/bin/criadapter-oci", Args: []string{"--criadapter-notes", notes}}},
		}
		p.running = nil
	})
	p.handle("GET /containers/json", answer(http.StatusOK, "[]"))
	p.handle("POST /images/load", answer(http.StatusOK, ""))
	p.handle("POST /containers/create", answer(http.StatusCreated, fmt.Sprintf(`{"Id": %q}`, id)))
	p.handle("DELETE /containers/"+id, answer(http.StatusNoContent, ""))
	p.handle("POST /containers/"+id+"/start", func(w http.ResponseWriter, _ *http.Request) {
		note, err := ocinote.Dir(notes).Load(id)
		p.starts.Add(1)
		if err != nil || note.UserNamespace() != "" || p.failing.Add(-1) >= 0 {
			fail(w, http.StatusInternalServerError, "no memory")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	inspect, _ := json.Marshal(map[string]any{"Id": id, "State": map[string]any{"Pid": cmd.Process.Pid}})
	p.handle("GET /containers/"+id+"/json", answer(http.StatusOK, string(inspect)))
	return p
}

func (p *probed) dialAuto() *Client {
	p.t.Helper()
	c, err := Dial(Options{Host: "unix://" + p.socket, OCIRuntime: OCIRuntimeAuto})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Close() })
	return c
}

// What did not work is tried again, and what worked is not.
func TestProofIsCompletedLater(t *testing.T) {
	p := newProbed(t)
	p.failing.Store(1)
	c := p.dialAuto()
	look := func(wantStarts int64, wantRetry time.Duration, wantReadOnly bool) {
		t.Helper()
		c.current.Store(nil)
		p.starts.Store(0)
		s, err := c.session(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		r, proof := s.features.OCIRuntime, c.proof.Load()
		if r.Name == "" || r.UserNamespaces || !strings.Contains(r.NoUserNamespaces, "no memory") || r.RecursiveReadOnly != wantReadOnly {
			t.Errorf("got %+v", r)
		}
		if p.starts.Load() != wantStarts || proof.retry != wantRetry || !s.until.Equal(proof.until) {
			t.Errorf("%d containers, again after %s at %s, want %d after %s", p.starts.Load(), proof.retry, s.until, wantStarts, wantRetry)
		}
	}
	look(3, proofRetry, false) // one that fails, one without recursive read-only mounts, one for users
	look(0, proofRetry, false)
	outdate := func() {
		past := *c.proof.Load()
		past.until = time.Now().Add(-time.Second)
		c.proof.Store(&past)
	}
	outdate()
	look(2, 2*proofRetry, true)
	outdate()
	look(1, 4*proofRetry, true)
	p.change(func() { p.info.Driver = "btrfs" })
	look(2, proofRetry, true)
}

func TestProofOfEverythingIsForGood(t *testing.T) {
	if p := (proof{retry: proofRetry}).again(OCIRuntime{}, true); !p.until.IsZero() || p.retry != 0 {
		t.Errorf("got %+v", p)
	}
	if p := (proof{retry: maxProofRetry}).again(OCIRuntime{}, false); p.retry != maxProofRetry {
		t.Errorf("got %+v", p)
	}
}

// Nothing is started for user namespaces on an engine with SELinux.
func TestNoUserNamespacesWithSELinux(t *testing.T) {
	p := newProbed(t)
	p.change(func() { p.info.SecurityOptions = []string{"name=selinux"} })
	features, err := p.dialAuto().Features(testContext(t))
	if r := features.OCIRuntime; err != nil || r.UserNamespaces || !strings.Contains(r.NoUserNamespaces, "SELinux") || !r.RecursiveReadOnly {
		t.Errorf("got %+v, %v", r, err)
	}
}
