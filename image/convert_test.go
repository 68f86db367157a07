package image

import (
	"testing"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestParseUser(t *testing.T) {
	for _, test := range []struct {
		user     string
		uid      int64
		hasUID   bool
		username string
	}{
		{user: ""},
		{user: ":1004"},
		{user: "0", hasUID: true},
		{user: "1002", uid: 1002, hasUID: true},
		{user: "1003:1004", uid: 1003, hasUID: true},
		{user: "1003:staff", uid: 1003, hasUID: true},
		{user: "www-data", username: "www-data"},
		{user: "www-data:1004", username: "www-data"},
		{user: "-1", username: "-1"},
		{user: "99999999999999999999", username: "99999999999999999999"},
	} {
		uid, username := parseUser(test.user)
		testutil.Assert(t, (uid != nil) == test.hasUID && uid.GetValue() == test.uid && username == test.username,
			"%q: uid %v, username %q", test.user, uid, username)
	}
}

func FuzzParseUser(f *testing.F) {
	for _, seed := range []string{"", "0", "1003:1004", "www-data:1004", ":", "-5", "1:2:3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, user string) {
		uid, username := parseUser(user)
		testutil.Assert(t, uid == nil || username == "", "%q has both a uid and a name, which exclude each other", user)
		testutil.Assert(t, uid.GetValue() >= 0, "%q has the uid %d", user, uid.GetValue())
	})
}

func TestSizeIsAboveZero(t *testing.T) {
	for bytes, want := range map[int64]uint64{-1: 1, 0: 1, 1: 1, 42: 42} {
		testutil.Equal(t, size(bytes), want, "size(%d)", bytes)
	}
}

func TestMatches(t *testing.T) {
	const id = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	const digest = "sha256:ffff456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	img := &runtimeapi.Image{
		Id:          id,
		RepoTags:    []string{"busybox:1.29", "127.0.0.1:5000/tools:latest"},
		RepoDigests: []string{"busybox@" + digest},
	}
	for want, match := range map[string]bool{
		"":                                  true,
		id:                                  true,
		"0123":                              true,
		"sha256:0123":                       true,
		"sha256:":                           false,
		"123":                               false,
		"busybox":                           true,
		"busybox:1.29":                      true,
		"docker.io/library/busybox:1.29":    true,
		"docker.io/library/busybox":         true,
		"busybox:1.30":                      false,
		"busybox@" + digest:                 true,
		"busybox:1.29@" + digest:            true,
		"busybox@" + id:                     false,
		"127.0.0.1:5000/tools":              true,
		"127.0.0.1:5000/tools:latest":       true,
		"tools":                             false,
		"Not A Reference":                   false,
		"127.0.0.1:5000/tools/../tools":     false,
		"registry.example/library/busybox":  false,
		"index.docker.io/library/busybox":   true,
		"127.0.0.1:5000/library/tools:1.29": false,
	} {
		testutil.Equal(t, matches(img, want), match, "%q", want)
	}
}

func TestLookupReference(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for ref, want := range map[string]string{
		"busybox":                "busybox",
		"busybox:1.29":           "busybox:1.29",
		digest:                   digest,
		"0123456789ab":           "0123456789ab",
		"busybox@" + digest:      "docker.io/library/busybox@" + digest,
		"busybox:1.29@" + digest: "docker.io/library/busybox@" + digest,
	} {
		got, err := lookupReference(&runtimeapi.ImageSpec{Image: ref})
		testutil.Assert(t, err == nil && got == want, "%q: got %q, %v, want %q", ref, got, err, want)
	}
}

func TestReferencesThatAreNone(t *testing.T) {
	for _, ref := range []string{"", "Upper", "a b", "../../containers/json", "a/../b", "busybox:", "busybox@sha256:1",
		"a?b", "a#b", "a%2fb"} {
		spec := &runtimeapi.ImageSpec{Image: ref}
		_, err := lookupReference(spec)
		testutil.Assert(t, errdefs.IsInvalidArgument(err), "lookup of %q: %v, want ErrInvalidArgument", ref, err)
		_, err = pullReference(spec)
		testutil.Assert(t, errdefs.IsInvalidArgument(err), "pull of %q: %v, want ErrInvalidArgument", ref, err)
	}
	_, err := lookupReference(nil)
	testutil.Assert(t, errdefs.IsInvalidArgument(err), "lookup of nothing: %v, want ErrInvalidArgument", err)
}

func TestPullReference(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for ref, want := range map[string]string{
		"busybox":                       "docker.io/library/busybox:latest",
		"docker.io/library/busybox":     "docker.io/library/busybox:latest",
		"busybox:1.29":                  "docker.io/library/busybox:1.29",
		"127.0.0.1:5000/a/b":            "127.0.0.1:5000/a/b:latest",
		"busybox@" + digest:             "docker.io/library/busybox@" + digest,
		"127.0.0.1:5000/a:1@" + digest:  "127.0.0.1:5000/a@" + digest,
		"localhost:5000/under_score:v1": "localhost:5000/under_score:v1",
	} {
		got, err := pullReference(&runtimeapi.ImageSpec{Image: ref})
		testutil.Assert(t, err == nil && got.String() == want, "%q: got %v, %v, want %q", ref, got, err, want)
	}
	_, err := pullReference(&runtimeapi.ImageSpec{Image: digest})
	testutil.Assert(t, errdefs.IsInvalidArgument(err), "pull of an id: %v, want ErrInvalidArgument", err)
}

func FuzzReferences(f *testing.F) {
	for _, seed := range []string{"busybox", "a/b:c", "../x", "sha256:00", "a@sha256:1", "A",
		"x:1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		spec := &runtimeapi.ImageSpec{Image: ref}
		if got, err := lookupReference(spec); err == nil {
			for _, char := range got {
				testutil.Assert(t, char > ' ' && char != '?' && char != '#' && char != '%' && char <= '~',
					"%q became %q, which does not belong into a URL", ref, got)
			}
		}
		named, err := pullReference(spec)
		if err != nil {
			return
		}
		again, err := pullReference(&runtimeapi.ImageSpec{Image: named.String()})
		testutil.Assert(t, err == nil && again.String() == named.String(),
			"%q is not normalised: %v, %v", named, again, err)
	})
}
