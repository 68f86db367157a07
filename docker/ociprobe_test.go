package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/log"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/pause"
	"github.com/criadapter/criadapter/internal/testutil"
)

// probed is a fake engine with the OCI runtime. All its containers are the same real process, which has probeGroup and
// the mounts of probedMounts.
type probed struct {
	*fakeServer
	starts, failing atomic.Int64
	// slow is how long a start takes, in nanoseconds.
	slow atomic.Int64
	// old makes the runtime's program too old to know GroupsOf.
	old atomic.Bool
	// notes is the runtime's directory of notes.
	notes ocinote.Dir
}

// probedMounts makes the mounts that a probe looks for, as a runtime does that knows the option.
const probedMounts = `set -e
mount -t tmpfs none /mnt
mkdir ` + probeWritable + ` ` + probeRecursive + `
mount -t tmpfs none ` + probeWritable + `
mount -t tmpfs none ` + probeRecursive + `
mkdir ` + probeWritable + `/pts ` + probeRecursive + `/pts
mount -t tmpfs none ` + probeWritable + `/pts
mount -t tmpfs -o ro none ` + probeRecursive + `/pts
mount -o remount,ro,bind ` + probeRecursive + `
mount -o remount,ro,bind ` + probeRecursive + `/pts
echo ready
exec sleep 1000 >/dev/null`

func newProbed(t *testing.T) *probed {
	t.Helper()
	cmd := exec.Command("sh", "-c", probedMounts)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Groups: []uint32{probeGroup}}, Pdeathsig: syscall.SIGKILL,
		Unshareflags: syscall.CLONE_NEWNS,
	}
	ready, err := cmd.StdoutPipe()
	testutil.Must(t, err)
	if err := cmd.Start(); err != nil {
		t.Skip("needs root: ", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := io.ReadAll(ready); err != nil || string(line) != "ready\n" {
		t.Fatalf("the process with the mounts of a probe says %q, %v", line, err)
	}
	p := &probed{fakeServer: newFakeServer(t)}
	id, notes := strings.Repeat("0a", 32), t.TempDir()
	p.notes = ocinote.Dir(notes)
	p.change(func() {
		p.info.Runtimes = map[string]system.RuntimeWithStatus{
			"runc": {Runtime: system.Runtime{Path: "runc"}},
			"criadapter": {
				Runtime: system.Runtime{Path: "/bin/criadapter-oci", Args: []string{"--criadapter-notes", notes}}},
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
		time.Sleep(time.Duration(p.slow.Load()))
		if p.old.Load() && note.Process.GroupsOf != "" {
			fail(w, http.StatusInternalServerError, `unknown field "groupsOf"`)
			return
		}
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
	testutil.Must(p.t, err)
	p.t.Cleanup(func() { _ = c.Close() })
	return c
}

// A feature is probed again if its probe failed, and not again once it has worked. After a change of the engine, such
// as another storage driver, all features are probed anew.
func TestProofIsCompletedLater(t *testing.T) {
	p := newProbed(t)
	p.failing.Store(1)
	c := p.dialAuto()
	look := func(wantStarts int64, wantRetry time.Duration, wantReadOnly bool) {
		t.Helper()
		c.current.Store(nil)
		p.starts.Store(0)
		s, err := c.session(testContext(t))
		testutil.Must(t, err)
		r, proof := s.features.OCIRuntime, c.proof.Load()
		testutil.Assert(t, r.Name != "" && !r.UserNamespaces && strings.Contains(r.NoUserNamespaces, "no memory") &&
			r.RecursiveReadOnly == wantReadOnly, "got %+v", r)
		if p.starts.Load() != wantStarts || proof.retry != wantRetry || !s.nextLook.Equal(proof.nextLook) {
			t.Errorf("%d containers, again after %s at %s, want %d after %s", p.starts.Load(), proof.retry, s.nextLook,
				wantStarts, wantRetry)
		}
	}
	look(3, proofRetry, false) // the probes of recursive mounts (which fails), of the group and of user namespaces
	look(0, proofRetry, false)
	outdate := func() {
		past := *c.proof.Load()
		past.nextLook = time.Now().Add(-time.Second)
		c.proof.Store(&past)
	}
	outdate()
	look(2, 2*proofRetry, true)
	outdate()
	look(1, 4*proofRetry, true)
	p.change(func() { p.info.Driver = "btrfs" })
	look(2, proofRetry, true)
}

// A new client relies on the proof that an earlier client saved. After a change of the engine's version it makes its
// own proof. While that proof fails, pods that already use the runtime keep the runtime, and the client probes it again
// within seconds.
func TestProofOutlivesTheProgram(t *testing.T) {
	p := newProbed(t)
	first, err := p.dialAuto().Features(testContext(t))
	testutil.Require(t, err == nil && first.OCIRuntime.Works() && first.OCIRuntime.RecursiveReadOnly,
		"before: %+v, %v", first.OCIRuntime, err)
	p.starts.Store(0)
	p.failing.Store(1000)
	again, err := p.dialAuto().Features(testContext(t))
	testutil.Assert(t, err == nil && again.OCIRuntime == first.OCIRuntime && p.starts.Load() == 0,
		"after a restart: %+v, %v, with %d containers", again.OCIRuntime, err, p.starts.Load())
	p.change(func() { p.version.Version = "20.10.25" })
	c := p.dialAuto()
	upgraded, err := c.Features(testContext(t))
	r := upgraded.OCIRuntime
	testutil.Assert(t, err == nil && !r.Works() && r.Name == "criadapter" && r.Notes == p.notes &&
		strings.Contains(r.Fault, "no memory"), "after an upgrade of the engine: %+v, %v", r, err)
	testutil.Check(t, CheckSpec(ContainerSpec{Note: &ocinote.Note{}}, upgraded), "a container with a note")
	wait := time.Until(c.current.Load().nextLook)
	testutil.Assert(t, wait <= proofRetry, "the runtime is tried again after %s", wait)
	p.failing.Store(0)
	past := *c.proof.Load()
	past.nextLook = time.Now()
	c.proof.Store(&past)
	c.current.Store(nil)
	later, err := c.Features(testContext(t))
	testutil.Assert(t, err == nil && later.OCIRuntime.Works() && later.OCIRuntime.Fault == "",
		"after that: %+v, %v", later.OCIRuntime, err)
}

// A program that does not know all fields of notes does not work, because containers with such a field would not start.
func TestProgramThatIsTooOld(t *testing.T) {
	p := newProbed(t)
	p.old.Store(true)
	features, err := p.dialAuto().Features(testContext(t))
	r := features.OCIRuntime
	testutil.Assert(t, err == nil && !r.Works() && strings.Contains(r.Fault, "groupsOf"), "got %+v, %v", r, err)
	key := proofKey{EngineID: "engine", Note: probe{engineID: "engine"}.groupNote()}
	now, err := key.digest()
	testutil.Must(t, err)
	// This is the key from before criadapter had the field.
	key.Note.Process.GroupsOf = ""
	before, err := key.digest()
	testutil.Assert(t, err == nil && before != now, "an earlier proof still counts: %v", err)
}

// Callers that leave before the proof is made, as health checks do, do not make the proof begin anew each time.
func TestImpatientCallersShareAProof(t *testing.T) {
	p := newProbed(t)
	p.slow.Store(int64(300 * time.Millisecond))
	c := p.dialAuto()
	left := 0
	testutil.Eventually(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		features, err := c.Features(ctx)
		if err != nil {
			left++
			return err
		}
		testutil.Assert(t, features.OCIRuntime.Works(), "got %+v", features.OCIRuntime)
		return nil
	})
	testutil.Assert(t, left != 0 && p.starts.Load() == 2,
		"%d callers left, and %d containers were started, want 2", left, p.starts.Load())
}

// The log says why recursive read-only mounts are not announced.
func TestReasonOfNoRecursiveMounts(t *testing.T) {
	p := newProbed(t)
	p.failing.Store(1)
	var text bytes.Buffer
	logger := logrus.New()
	logger.SetOutput(&text)
	features, err := p.dialAuto().Features(log.WithLogger(testContext(t), logrus.NewEntry(logger)))
	r := features.OCIRuntime
	testutil.Assert(t, err == nil && r.Works() && !r.RecursiveReadOnly, "got %+v, %v", r, err)
	testutil.Assert(t, strings.Contains(text.String(), "read-only recursively") &&
		strings.Contains(text.String(), "no memory"), "the log is %s", text.String())
}

// A hanging proof delays no request for longer than proofTimeout. Until the proof is made, the previous proof counts.
func TestHangingProofDoesNotKeepTheEngineAway(t *testing.T) {
	for name, last := range map[string]OCIRuntime{
		"nothing works":   {Name: "criadapter", Fault: "broken"},
		"a part is known": {Name: "criadapter", RecursiveReadOnly: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run := &proofRun{subject: "this", began: time.Now(), done: make(chan struct{})}
				c := &Client{proving: run}
				known := &proof{subject: "this", proven: last, retry: maxProofRetry, nextLook: time.Now()}
				ctx, cancel := context.WithTimeout(t.Context(), 2*defaultRequestTimeout)
				defer cancel()
				for range 2 { // the second caller does not wait at all
					began := time.Now()
					got, err := c.makeProof(ctx, known, probe{})
					testutil.Require(t, err == nil && got.proven == last && got.retry == known.retry && !got.due(),
						"got %+v, %v", got, err)
					wait := time.Since(began)
					testutil.Assert(t, wait <= proofTimeout, "a request waited for %s", wait)
					time.Sleep(time.Minute)
				}
				want := known.next(last)
				run.made.Store(want)
				close(run.done)
				got, err := c.makeProof(ctx, known, probe{})
				testutil.Assert(t, got == want && err == nil && c.proving == nil, "after the proof: %+v, %v", got, err)
			})
		})
	}
}

// roundTripper answers requests without a connection.
type roundTripper func(*http.Request) *http.Response

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	return f(r), r.Context().Err()
}

// On a slow node a container starts more slowly than a request waits. The proof goes on meanwhile, and succeeds.
func TestSlowProofIsNotCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := 0
		api, err := client.New(client.WithAPIVersion("1.41"), client.WithHTTPClient(&http.Client{
			Transport: roundTripper(func(r *http.Request) *http.Response {
				code, body := http.StatusNoContent, ""
				switch {
				case strings.HasSuffix(r.URL.Path, "/containers/json"):
					code, body = http.StatusOK, "[]"
				case strings.HasSuffix(r.URL.Path, "/create"):
					code, body = http.StatusCreated, `{"Id": "`+strings.Repeat("c", 64)+`"}`
				case strings.HasSuffix(r.URL.Path, "/start"):
					starts++
					time.Sleep(proofTimeout + 10*time.Second)
					code, body = http.StatusInternalServerError, `{"message": "no memory"}`
				}
				return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
					Body: io.NopCloser(strings.NewReader(body)), Request: r}
			}),
		}))
		testutil.Must(t, err)
		runtime := OCIRuntime{Name: "criadapter", Notes: ocinote.Dir(t.TempDir()), RecursiveReadOnly: true}
		runtime.Fault = "broken"
		got := proof{proven: runtime}.repeat(t.Context(), probe{api: api, runtime: runtime})
		testutil.Assert(t, strings.Contains(got.proven.Fault, "no memory") && starts == 1,
			"after %d starts: %+v", starts, got.proven)
	})
}

func TestProofsThatAreNotTaken(t *testing.T) {
	found := OCIRuntime{Name: "criadapter", Notes: ocinote.Dir(t.TempDir())}
	for name, text := range map[string]string{
		"damaged": "{", "of another runtime": `{"of":"other","proven":{"Name":"criadapter"}}`,
		"of a broken runtime": `{"of":"this","proven":{}}`,
	} {
		testutil.Must(t, found.Notes.SaveProof([]byte(text)))
		p := loadProof("this", found)
		testutil.Assert(t, !p.proven.Works() && p.due() && p.proven.Name == found.Name, "%s: got %+v", name, p)
	}
}

// A program that was replaced, or is found elsewhere, needs another proof.
func TestProgramsAreIdentified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime")
	identify := func() programID { return identifyPrograms("/proc/self", path)[0] }
	missing := identify()
	testutil.Must(t, os.WriteFile(path, []byte("old"), 0o755))
	old := identify()
	testutil.Must(t,
		errors.Join(os.WriteFile(path, []byte("newer"), 0o755), os.Chtimes(path, time.Now(), time.Unix(1, 0))))
	newer := identify()
	testutil.Assert(t, missing != old && newer != old && missing.Path == path, "%+v, %+v and %+v", missing, old, newer)
	found := identifyPrograms("/proc/self", "sh")[0]
	testutil.Assert(t, filepath.IsAbs(found.Path) && found.Size != 0, "on PATH: %+v", found)
}

// If the answer to the create of a probe is lost, the probe is removed by its name at once. A later proof, which would
// remove it, may never run.
func TestProbeWithALostAnswerIsRemoved(t *testing.T) {
	p := newProbed(t)
	var created, removed atomic.Int64
	p.handle("POST /containers/create", func(w http.ResponseWriter, r *http.Request) {
		created.Add(1)
		p.handle("DELETE /containers/"+r.URL.Query().Get("name"), func(w http.ResponseWriter, _ *http.Request) {
			removed.Add(1)
			w.WriteHeader(http.StatusNoContent)
		})
		fail(w, http.StatusInternalServerError, "the answer is lost")
	})
	_, err := p.dialAuto().Features(testContext(t))
	testutil.Must(t, err)
	testutil.Assert(t, created.Load() > 0, "no probe was made")
	testutil.Equal(t, removed.Load(), created.Load(), "removed probes")
}

// Containers of other images or pods may have the label of probes. A container without a probe's name and image is left
// alone.
func TestProbesAloneAreTidied(t *testing.T) {
	p := newProbed(t)
	images := map[string]string{"probe": pause.Reference, "labelled": "web:1", "named": "web:1",
		"pause": pause.Reference}
	names := map[string]string{"probe": "/" + probeName + "X", "labelled": "/web", "named": "/" + probeName + "Y",
		"pause": "/k8s_POD_web"}
	var list []container.Summary
	removed := make(chan string, len(images))
	for id, image := range images {
		list = append(list,
			container.Summary{ID: id, Names: []string{names[id]}, Labels: map[string]string{probeLabel: "0"}})
		text, err := json.Marshal(map[string]any{"Id": id, "Config": map[string]any{"Image": image}})
		testutil.Must(t, err)
		p.handle("GET /containers/"+id+"/json", answer(http.StatusOK, string(text)))
		p.handle("DELETE /containers/"+id, func(w http.ResponseWriter, _ *http.Request) {
			removed <- id
			w.WriteHeader(http.StatusNoContent)
		})
	}
	text, err := json.Marshal(list)
	testutil.Must(t, err)
	p.handle("GET /containers/json", answer(http.StatusOK, string(text)))
	_, err = p.dialAuto().Features(testContext(t))
	testutil.Must(t, err)
	close(removed)
	var got []string
	for id := range removed {
		got = append(got, id)
	}
	testutil.Assert(t, slices.Equal(got, []string{"probe"}), "removed are %v", got)
}

// Notes of removed containers are removed, too. The cleanup does not list all containers, because a node may have
// thousands of ended ones.
func TestNotesOfRemovedContainersAreTidied(t *testing.T) {
	p := newProbed(t)
	p.change(func() { p.info.ID = "this" })
	kept, gone, foreign := strings.Repeat("1a", 32), strings.Repeat("2b", 32), strings.Repeat("3c", 32)
	testutil.Must(t, os.MkdirAll(filepath.Join(p.info.DockerRootDir, "containers", kept), 0o700))
	for id, engine := range map[string]string{kept: "this", gone: "this", foreign: "another"} {
		testutil.Must(t, p.notes.Save(id, ocinote.Note{Engine: engine}))
	}
	p.handle("GET /containers/json", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("filters") == "" {
			t.Error("all containers are listed")
		}
		answer(http.StatusOK, "[]")(w, r)
	})
	_, err := p.dialAuto().Features(testContext(t))
	testutil.Must(t, err)
	left, err := p.notes.List()
	testutil.Must(t, err)
	testutil.Equal(t, strings.Join(left, " "), kept+" "+foreign, "notes")
}

// runc before 1.1 takes the option rro for data of the mount and ignores it.
func TestCheckRecursive(t *testing.T) {
	line := func(place, options string) string {
		return "1 2 0:5 / " + place + " " + options + ",relatime - devpts devpts rw\n"
	}
	writable := line("/mnt/writable", "rw") + line("/mnt/writable/pts", "rw,nosuid") + line("/mnt/writable/ro", "ro")
	recursive := line("/mnt/recursive", "ro")
	for name, c := range map[string]struct{ mountinfo, want string }{
		"works": {writable + recursive + line("/mnt/recursive/pts", "ro,nosuid") +
			line("/mnt/recursive/ro", "ro"), ""},
		"ignored": {writable + recursive + line("/mnt/recursive/pts", "rw,nosuid") +
			line("/mnt/recursive/ro", "ro"), "/mnt/recursive/pts is writable"},
		"not read-only": {writable + line("/mnt/recursive", "rw") + line("/mnt/recursive/pts", "ro"),
			"/mnt/recursive is writable"},
		"nothing to see": {writable + recursive + line("/mnt/recursive/ro", "ro"), "no writable mount below it"},
		"no submounts":   {recursive, "no writable mount below it"},
		"another's prefix": {writable + recursive + line("/mnt/recursive/pts", "ro") + line("/mnt/recursively", "rw"),
			""},
	} {
		err := checkRecursive(c.mountinfo)
		testutil.Assert(t, (err == nil) == (c.want == "") && (err == nil || strings.Contains(err.Error(), c.want)),
			"%s: got %v, want %q", name, err, c.want)
	}
}

func TestProofOfEverythingIsForGood(t *testing.T) {
	whole := OCIRuntime{Name: "criadapter", RecursiveReadOnly: true, UserNamespaces: true}
	p := (proof{retry: proofRetry}).next(whole)
	testutil.Assert(t, p.nextLook.IsZero() && p.retry == 0 && !p.due(), "got %+v", p)
	part := OCIRuntime{Name: "criadapter"}
	if p := (proof{retry: maxPartRetry}).next(part); p.retry != maxPartRetry {
		t.Errorf("got %+v", p)
	}
	part.Fault = "broken"
	if p := (proof{retry: maxProofRetry}).next(part); p.retry != maxProofRetry {
		t.Errorf("got %+v", p)
	}
}

// On an engine with SELinux, no container is started to probe user namespaces.
func TestNoUserNamespacesWithSELinux(t *testing.T) {
	p := newProbed(t)
	p.change(func() { p.info.SecurityOptions = []string{"name=selinux"} })
	features, err := p.dialAuto().Features(testContext(t))
	r := features.OCIRuntime
	testutil.Assert(t, err == nil && !r.UserNamespaces && strings.Contains(r.NoUserNamespaces, "SELinux") &&
		r.RecursiveReadOnly, "got %+v, %v", r, err)
}
