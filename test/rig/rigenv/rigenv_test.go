package rigenv

import (
	"fmt"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

var whole = Env{
	Kind: KindPrivate, Engine: "installed", Mode: ModeOCI, Registration: RegistrationShim,
	DockerHost: "unix:///x/docker.sock", DockerRoot: "/x/root", Dockerd: "/usr/sbin/dockerd",
	RuntimeWrapper: "/x/runc", NegativeOOM: true, Registry: "127.0.0.1:1", AuthRegistry: "127.0.0.1:2",
	CNIBinDir: "/x/cni", Criadapter: "/x/criadapter", WorkDir: "/x/work",
}

func lookup(environ []string) func(string) string {
	return func(name string) string {
		for _, pair := range environ {
			if value, ok := strings.CutPrefix(pair, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

func TestEnvironRoundTrip(t *testing.T) {
	got, err := FromEnviron(lookup(whole.Environ()))
	testutil.Must(t, err)
	testutil.Assert(t, got == whole, "got %+v, want %+v", got, whole)
}

func TestFromEnvironRefuses(t *testing.T) {
	without := func(change func(*Env)) string {
		env := whole
		change(&env)
		return env.Environ()[0]
	}
	for name, pair := range map[string]string{
		"nothing at all": "",
		"half of it":     whole.Environ()[0][:100],
		"no kind":        without(func(e *Env) { e.Kind = "" }),
		"no engine":      without(func(e *Env) { e.DockerHost = "" }),
		"no directory":   without(func(e *Env) { e.WorkDir = "" }),
	} {
		t.Run(name, func(t *testing.T) {
			env, err := FromEnviron(lookup([]string{pair}))
			testutil.Assert(t, err != nil, "accepted as %+v", env)
		})
	}
}

// fakeTB records how a test was ended; like the real ones, Skip and Fatal do not return.
type fakeTB struct {
	testing.TB
	ended string
}

func (f *fakeTB) Helper() {}

func (f *fakeTB) Skip(args ...any) { f.ended = "skip: " + fmt.Sprint(args...); panic(f) }

func (f *fakeTB) Fatal(args ...any) { f.ended = "fatal: " + fmt.Sprint(args...); panic(f) }

func TestRequire(t *testing.T) {
	system := whole
	system.Kind = KindSystem
	tests := []struct {
		name    string
		environ []string
		ci      string
		require func(testing.TB) Env
		want    string // how the test must end; empty if it goes on
	}{
		{"private", whole.Environ(), "", Require, ""},
		{"private in CI", whole.Environ(), "true", Require, ""},
		{"system", system.Environ(), "", RequireSystem, ""},
		{"no rig", nil, "", Require, "skip: needs the private test rig; run: make test"},
		{"no rig in CI", nil, "true", Require, "fatal: needs the private test rig"},
		{"private on the system's", system.Environ(), "", Require, "skip: needs the private test rig"},
		{"system on the private one", whole.Environ(), "", RequireSystem,
			"skip: needs the system test rig; run: make test HALF=system"},
		{"system on the private one in CI", whole.Environ(), "true", RequireSystem, "fatal: needs the system test rig"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(variable, lookup(test.environ)(variable))
			t.Setenv("CI", test.ci)
			fake := &fakeTB{}
			func() {
				defer func() {
					if r := recover(); r != nil && r != any(fake) {
						panic(r)
					}
				}()
				test.require(fake)
			}()
			if test.want == "" && fake.ended != "" || !strings.HasPrefix(fake.ended, test.want) {
				t.Errorf("ended by %q, want %q", fake.ended, test.want)
			}
		})
	}
}
