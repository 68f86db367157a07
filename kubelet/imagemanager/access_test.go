package imagemanager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

const private = "r.example/private:1"

// accessNode is a node with an image service where one user may pull.
type accessNode struct {
	t    *testing.T
	path string
	*guarded
	*Puller
}

func newAccessNode(t *testing.T) *accessNode {
	t.Helper()
	n := &accessNode{t: t, path: filepath.Join(t.TempDir(), "access.json"), guarded: &guarded{user: "good"}}
	n.restart(NeverVerifyPreloadedImages)
	return n
}

// restart makes a new Puller from the files of the earlier one.
func (n *accessNode) restart(verification Verification, allowlist ...string) {
	n.t.Helper()
	testutil.Must(n.t, CheckVerification(verification, allowlist))
	access, err := OpenAccess(n.path)
	testutil.Must(n.t, err)
	pulled, err := OpenPulled(n.path + ".pulled")
	testutil.Must(n.t, err)
	n.Puller = New(Options{
		Service: NewImages(n.guarded), Access: access, Pulled: pulled, Verification: verification,
		Allowlist: allowlist,
		Secrets: secrets{
			"good":    userSecret("1", "good", "p"),
			"same":    userSecret("2", "good", "p"),
			"rotated": userSecret("1", "good", "new"),
			"bad":     userSecret("3", "bad", "p"),
		},
	})
}

func userSecret(uid, user, password string) *v1.Secret {
	secret := configJSON(`{"r.example":{"username":"` + user + `","password":"` + password + `"}}`)
	secret.UID = types.UID(uid)
	return secret
}

// use asks for the private image for a pod with pull secrets. It returns "present", "pulled" or the reason of an error.
func (n *accessNode) use(policy v1.PullPolicy, secrets ...string) string {
	n.t.Helper()
	r := request(private, policy)
	r.Pod.UID = types.UID(n.t.Name() + strings.Join(secrets, ","))
	for _, name := range secrets {
		r.Pod.Spec.ImagePullSecrets = append(r.Pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: name})
	}
	before := len(n.pulls)
	image, _, err := n.Ensure(n.t.Context(), r)
	n.Forget(string(r.Pod.UID))
	var reason *model.ReasonError
	switch {
	case errors.As(err, &reason):
		return reason.Reason
	case err != nil || image == nil:
		n.t.Fatalf("image %v, error %v", image, err)
	case len(n.pulls) > before:
		return "pulled"
	}
	return "present"
}

// wantUses uses the private image with each secret in want, and compares the outcomes.
func (n *accessNode) wantUses(want map[string]string) {
	n.t.Helper()
	for secret, outcome := range want {
		var names []string
		if secret != "" {
			names = []string{secret}
		}
		testutil.Equal(n.t, n.use(v1.PullIfNotPresent, names...), outcome, "IfNotPresent with the secret %q", secret)
		if outcome == model.ReasonErrImagePull {
			testutil.Equal(n.t, n.use(v1.PullNever, names...), model.ReasonErrImageNeverPull,
				"Never with the secret %q", secret)
		}
	}
}

// TestPresenceOfPrivateImagesIsHidden: with the pull policy Never, a private image that is present looks like a missing
// one.
func TestPresenceOfPrivateImagesIsHidden(t *testing.T) {
	n := newAccessNode(t)
	said := func() string {
		r, recorded := request(private, v1.PullNever), ""
		r.Record = func(reason, message string) { recorded += reason + ": " + message }
		_, _, err := n.Ensure(t.Context(), r)
		testutil.Equal(t, recorded, fmt.Sprint(err), "event")
		return recorded
	}
	missing := said()
	testutil.Equal(t, n.use(v1.PullIfNotPresent, "good"), "pulled", "the first use")
	testutil.Equal(t, said(), missing, "the error of a present image")
}

// TestPrivateImagesStayPrivate: this node has pulled an image. A pod may use the image only if the pod's credentials
// have pulled it.
func TestPrivateImagesStayPrivate(t *testing.T) {
	n := newAccessNode(t)
	testutil.Equal(t, n.use(v1.PullIfNotPresent, "good"), "pulled", "the first use")
	all := map[string]string{
		"good": "present", "same": "present", "rotated": "present", "bad": model.ReasonErrImagePull,
		"": model.ReasonErrImagePull,
	}
	n.wantUses(all)
	n.restart(NeverVerifyPreloadedImages)
	n.wantUses(all)
	content, err := os.ReadFile(n.path)
	testutil.Must(t, err)
	testutil.Assert(t, !strings.Contains(string(content), "good"), "the file has a login: %s", content)

	n.restart(NeverVerify)
	testutil.Equal(t, n.use(v1.PullIfNotPresent), "present", "NeverVerify")

	n.restart(NeverVerifyPreloadedImages)
	n.user = "" // the registry needs no login now
	testutil.Equal(t, n.use(v1.PullIfNotPresent), "pulled", "a pull without credentials")
	testutil.Equal(t, n.use(v1.PullIfNotPresent, "bad"), "present", "after a pull without credentials")

	testutil.Must(t, n.Puller.opts.Access.keep(func(string) bool { return false }, time.Now()))
	testutil.Equal(t, n.use(v1.PullIfNotPresent), "present", "an image that another client pulled again")
}

// slowContainers has the containers of a runtime. Its ListContainers calls meanwhile before it lists them.
type slowContainers struct {
	containers
	meanwhile func()
}

func (s slowContainers) ListContainers(
	ctx context.Context, filter *runtimeapi.ContainerFilter,
) ([]*runtimeapi.Container, error) {
	s.meanwhile()
	return s.containers.ListContainers(ctx, filter)
}

// TestPullDuringCollection: an image that is pulled after the collector's list of images stays private.
func TestPullDuringCollection(t *testing.T) {
	n := newAccessNode(t)
	pull := func() { testutil.Equal(t, n.use(v1.PullAlways, "good"), "pulled", "a pull after the list") }
	c := NewCollector(CollectorOptions{Images: n.guarded, Containers: slowContainers{meanwhile: pull}, HighPercent: 100,
		Pulled: n.Puller.opts.Pulled, Access: n.Puller.opts.Access})
	testutil.Must(t, c.Collect(t.Context()))
	n.wantUses(map[string]string{"good": "present", "": model.ReasonErrImagePull})
	testutil.Assert(t, n.Puller.opts.Pulled.has("id-"+private), "the collector has forgotten who pulled the image")
}

// TestPreloadedImages: all pods may use an image that was present before any pull, unless the policy says otherwise.
func TestPreloadedImages(t *testing.T) {
	n := newAccessNode(t)
	n.service.present = []*runtimeapi.Image{{Id: "id-" + private, RepoTags: []string{private}}}
	testutil.Equal(t, n.use(v1.PullIfNotPresent), "present", "by default")
	testutil.Equal(t, n.use(v1.PullAlways, "good"), "pulled", "Always")
	testutil.Equal(t, n.use(v1.PullIfNotPresent), "present", "by default, after a pull")
	for entry, want := range map[string]string{
		"r.example/private": "present", "r.example/*": "present", "r.example/priv": model.ReasonErrImagePull,
		"r.exam/*": model.ReasonErrImagePull,
	} {
		n.restart(NeverVerifyAllowlistedImages, entry)
		testutil.Equal(t, n.use(v1.PullIfNotPresent), want, "with %s in the list", entry)
	}
	n.restart(AlwaysVerify)
	n.wantUses(map[string]string{"": model.ReasonErrImagePull, "good": "present"})
}

// TestAllowlistOfShortNames: an entry and an image mean the same repository whether or not they name Docker Hub.
func TestAllowlistOfShortNames(t *testing.T) {
	for _, c := range []struct {
		entry   string
		in, out []string
	}{
		{"library/*", []string{"nginx", "docker.io/library/nginx:1", "library/nginx"}, []string{"team/nginx",
			"r.example/library/nginx"}},
		{"docker.io/library/*", []string{"nginx:1"}, []string{"team/nginx"}},
		{"team/*", []string{"team/app", "docker.io/team/app"}, []string{"nginx", "teams/app"}},
		{"docker.io/*", []string{"nginx", "team/app"}, []string{"r.example/app"}},
		{"index.docker.io/*", []string{"nginx", "team/app"}, []string{"r.example/app"}},
		{"r.example:5000/*", []string{"r.example:5000/app", "r.example:5000/team/app"}, []string{"r.example/app"}},
		{"localhost:5000/team/*", []string{"localhost:5000/team/app"}, []string{"localhost:5000/app"}},
		{"nginx", []string{"docker.io/library/nginx"}, []string{"nginx/nginx"}},
	} {
		testutil.Must(t, CheckVerification(NeverVerifyAllowlistedImages, []string{c.entry}), c.entry)
		p := &Puller{opts: Options{Verification: NeverVerifyAllowlistedImages, Allowlist: []string{c.entry}}}
		for _, name := range c.in {
			testutil.Assert(t, !p.verifiesPreloaded(name), "%s does not stand for %s", c.entry, name)
		}
		for _, name := range c.out {
			testutil.Assert(t, p.verifiesPreloaded(name), "%s stands for %s", c.entry, name)
		}
	}
}

// TestCrashInAPull: an image of an unfinished pull does not count as preloaded.
func TestCrashInAPull(t *testing.T) {
	n := newAccessNode(t)
	_, err := n.Puller.opts.Access.begin(private)
	testutil.Must(t, err)
	n.service.present = []*runtimeapi.Image{{Id: "id-" + private, RepoTags: []string{private}}}
	n.restart(NeverVerifyPreloadedImages)
	n.wantUses(map[string]string{"": model.ReasonErrImagePull, "bad": model.ReasonErrImagePull})
	n.restart(NeverVerifyPreloadedImages)
	n.wantUses(map[string]string{"": model.ReasonErrImagePull})
	testutil.Equal(t, n.use(v1.PullIfNotPresent, "good"), "pulled", "with the secret")
	n.wantUses(map[string]string{"": model.ReasonErrImagePull, "good": "present"})
}

// TestPullThatIsCutOff: the runtime may finish a pull whose caller has left.
func TestPullThatIsCutOff(t *testing.T) {
	for err, want := range map[error]string{
		context.DeadlineExceeded:                             model.ReasonErrImagePull,
		status.Error(codes.Canceled, "gone"):                 model.ReasonErrImagePull,
		status.Error(codes.Unavailable, "connection closed"): model.ReasonErrImagePull,
		status.Error(codes.NotFound, "no such image"):        "present",
	} {
		n := newAccessNode(t)
		n.pullable = map[string]error{private: err}
		testutil.Equal(t, n.use(v1.PullIfNotPresent, "good"), model.ReasonErrImagePull, "the pull")
		n.pullable = nil
		n.service.present = []*runtimeapi.Image{{Id: "id-" + private, RepoTags: []string{private}}}
		testutil.Equal(t, n.use(v1.PullIfNotPresent), want, "use without the secret after %v", err)
	}
}

// TestPullThatIsCutOffLater: the registry refuses the first credential, and the pull with the second one is cut off.
func TestPullThatIsCutOffLater(t *testing.T) {
	n := newAccessNode(t)
	n.pullable = map[string]error{private: status.Error(codes.Canceled, "gone")}
	n.refusal = status.Error(codes.Unknown, "access denied")
	testutil.Equal(t, n.use(v1.PullIfNotPresent, "bad", "good"), model.ReasonErrImagePull, "the pull")
	n.service.present = []*runtimeapi.Image{{Id: "id-" + private, RepoTags: []string{private}}}
	testutil.Equal(t, n.use(v1.PullIfNotPresent), model.ReasonErrImagePull, "use without the secret")
}

// TestPullWithoutStatus: after a pull, the runtime fails to describe the image, or lacks it for a moment. The image
// does not count as preloaded afterwards.
func TestPullWithoutStatus(t *testing.T) {
	for _, failure := range []error{nil, errors.New("out of memory")} {
		n := newAccessNode(t)
		n.described = func() (bool, error) { return len(n.pulls) == 0, failure }
		testutil.Equal(t, n.use(v1.PullIfNotPresent, "good"), model.ReasonImageInspectError, "the pull")
		n.described = nil
		testutil.Equal(t, n.use(v1.PullIfNotPresent), model.ReasonErrImagePull, "use without the secret")
		testutil.Equal(t, n.use(v1.PullIfNotPresent, "good"), "pulled", "use with the secret")
	}
}

func TestBrokenAccessFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.json")
	for _, content := range []string{"{", "{}", `{"key": "aGk=", "images": null}`} {
		testutil.WriteFile(t, path, content)
		_, err := OpenAccess(path)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), "remove the file"), "%s: %v", content, err)
	}
}

func TestCheckVerification(t *testing.T) {
	for _, c := range []struct {
		policy    Verification
		allowlist []string
	}{
		{"Sometimes", nil}, {AlwaysVerify, []string{"a"}}, {NeverVerifyAllowlistedImages, []string{"a:1"}},
		{NeverVerifyAllowlistedImages, []string{"a*"}}, {NeverVerifyAllowlistedImages, []string{"*/a/*"}},
		{NeverVerifyAllowlistedImages, []string{""}}, {NeverVerifyAllowlistedImages, []string{"/*"}},
		{NeverVerifyAllowlistedImages, []string{"*"}}, {NeverVerifyAllowlistedImages, []string{"a:x/*"}},
	} {
		err := CheckVerification(c.policy, c.allowlist)
		testutil.Assert(t, err != nil, "%s with %q is valid", c.policy, c.allowlist)
	}
}
