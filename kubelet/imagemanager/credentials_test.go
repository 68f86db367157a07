package imagemanager

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// guarded lets only one user pull.
type guarded struct {
	service
	user  string
	tried []string
	// refusal is the answer to other users, if set.
	refusal error
}

func (g *guarded) PullImage(
	ctx context.Context, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, pod *runtimeapi.PodSandboxConfig,
) (string, error) {
	g.tried = append(g.tried, auth.GetUsername()+":"+auth.GetPassword())
	if auth.GetUsername() != g.user {
		return "", cmp.Or(g.refusal, errors.New("access denied"))
	}
	return g.service.PullImage(ctx, spec, auth, pod)
}

// secrets are pull secrets by name.
type secrets map[string]*v1.Secret

func (s secrets) Secret(_ *v1.Pod, name string) (*v1.Secret, error) {
	if secret := s[name]; secret != nil {
		return secret, nil
	}
	return nil, fmt.Errorf("secret %q: %w", name, errdefs.ErrNotFound)
}

func configJSON(auths string) *v1.Secret {
	return &v1.Secret{Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":` + auths + `}`)}}
}

// users is a configuration with one user per registry: u0, u1 and so on.
func users(registries ...string) *v1.Secret {
	var entries []string
	for i, registry := range registries {
		entries = append(entries, fmt.Sprintf(`%q:{"username":"u%d","password":"p"}`, registry, i))
	}
	return configJSON("{" + strings.Join(entries, ",") + "}")
}

func TestCredentialsByRegistry(t *testing.T) {
	for _, test := range []struct {
		image      string
		registries []string
		want       string
	}{
		{"example.org/a/b:1", []string{"example.org"}, "u0"},
		{"example.org/a/b:1", []string{"example.com", "other.org"}, ""},
		{"example.org/a/b:1", []string{"https://example.org/v2/"}, "u0"},
		{"example.org/a/b:1", []string{"example.org", "example.org/a", "example.org/a/b", "example.org/c"}, "u2 u1 u0"},
		{"example.org/a/b", []string{"https://example.org/v2/", "example.org/a", "http://example.org/a/b"}, "u2 u1 u0"},
		{"eu.example.org/a", []string{"*.example.org", "e*.example.org", "*.org", "*.*.org"}, "u1 u0 u3"},
		{"example.org:5000/a", []string{"example.org", "example.org:5000", "*.org:5000", "example.org:5001"}, "u1 u2"},
		{"127.0.0.1:5000/a@sha256:" + strings.Repeat("a", 64), []string{"127.0.0.1:5000"}, "u0"},
		{"busybox", []string{"https://index.docker.io/v1/"}, "u0"},
		{"docker.io/me/mine", []string{"docker.io", "index.docker.io"}, "u0"},
		{"localhost/a", []string{"index.docker.io"}, ""},
		{"busybox", []string{"index.docker.io/v1/team", "https://index.docker.io/v1"}, "u1"},
		{"busybox", []string{"https://index.docker.io/v1/refresh-token"}, ""},
	} {
		t.Run(test.image+" "+strings.Join(test.registries, " "), func(t *testing.T) {
			p := New(Options{Secrets: secrets{"s": users(test.registries...)}})
			r := request(test.image, v1.PullAlways)
			r.Pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "s"}}
			found, err := p.credentials(r)
			var names []string
			for _, auth := range found {
				names = append(names, auth.GetUsername())
			}
			got := strings.Join(names, " ")
			testutil.Assert(t, err == nil && got == test.want, "got %q, %v; want %q", got, err, test.want)
		})
	}
}

// TestPullTriesCredentialsInOrder: a missing secret and a secret of another type are left out. The first login's base64
// is padded and ends in a newline. The second login has neither padding nor newline.
func TestPullTriesCredentialsInOrder(t *testing.T) {
	encoded := base64.RawStdEncoding.EncodeToString([]byte("old:secret:words"))
	padded := base64.StdEncoding.EncodeToString([]byte("new:pwd"))
	known := secrets{
		"other": {Type: v1.SecretTypeOpaque},
		"new":   configJSON(`{"example.org":{"auth":"` + padded + `\n"}}`),
		"old": {Type: v1.SecretTypeDockercfg,
			Data: map[string][]byte{
				v1.DockerConfigKey: []byte(`{"https://example.org/v1/":{"auth":"` + encoded + `"}}`)}},
	}
	var recorded []string
	pull := func(user string) ([]string, error) {
		g := &guarded{user: user}
		r := request("example.org/image", v1.PullAlways)
		for _, name := range []string{"gone", "other", "new", "old"} {
			r.Pod.Spec.ImagePullSecrets = append(r.Pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: name})
		}
		recorded = nil
		r.Record = func(reason, _ string) { recorded = append(recorded, reason) }
		_, _, err := New(Options{Service: NewImages(g), Secrets: known}).Ensure(t.Context(), r)
		return g.tried, err
	}
	tried, err := pull("old")
	testutil.Assert(t, err == nil && slices.Equal(tried, []string{"new:pwd", "old:secret:words"}),
		"tried %v, %v", tried, err)
	testutil.Equal(t, strings.Join(recorded, " "),
		"FailedToRetrieveImagePullSecret FailedToRetrieveImagePullSecret Pulling Pulled", "recorded")
	tried, err = pull("other")
	var reason *model.ReasonError
	testutil.Assert(t, errors.As(err, &reason) && reason.Reason == model.ReasonErrImagePull && len(tried) == 2 &&
		strings.Contains(err.Error(), "access denied"), "tried %v, %v", tried, err)
}

// TestFilesThatCannotBeRead: the event about a file of the node has its path. It names no field of a secret.
func TestFilesThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	for content, want := range map[string]string{
		"s3cr3t": path + ", pulling without them: it is not a Docker configuration in JSON",
		`{"auths":{"example.org":{"auth":"s3cr3t!"}}}`: path + `, pulling without them: registry "example.org": auth`,
	} {
		testutil.WriteFile(t, path, content)
		r, recorded := request("example.org/image", v1.PullAlways), ""
		r.Record = func(reason, message string) { recorded += reason + ": " + message }
		found, err := New(Options{Files: []string{path}}).credentials(r)
		testutil.Assert(t, err == nil && len(found) == 0, "found %v, %v", found, err)
		testutil.Assert(t, strings.HasPrefix(recorded, "FailedToReadImagePullCredentials: ") &&
			strings.Contains(recorded, want) && !strings.Contains(recorded, "s3cr3t"), "recorded %q", recorded)
	}
}

func TestSecretsThatCannotBeRead(t *testing.T) {
	for name, secret := range map[string]*v1.Secret{
		"data[.dockercfg]":    {Type: v1.SecretTypeDockercfg},
		`"example.org": auth`: configJSON(`{"example.org":{"auth":"s3cr3t!"}}`),
		`base64 form of "user`: configJSON(`{"example.org":{"auth":"` +
			base64.StdEncoding.EncodeToString([]byte("s3cr3t")) + `"}}`),
		"no such: it is not the address": configJSON(`{"no such: host":{"username":"u","password":"s3cr3t"}}`),
	} {
		r := request("example.org/image", v1.PullAlways)
		r.Pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "s"}}
		s := &service{}
		_, _, err := New(Options{Service: NewImages(s), Secrets: secrets{"s": secret}}).Ensure(t.Context(), r)
		testutil.Assert(t, errdefs.IsInvalidArgument(err) && len(s.pulls) == 0 &&
			!strings.Contains(fmt.Sprint(err), "s3cr3t"), "%s: %v after %v", name, err, s.pulls)
		want, _, _ := strings.Cut(name, ": it")
		testutil.Assert(t, strings.Contains(fmt.Sprint(err), want), "%v does not name %s", err, want)
	}
}
