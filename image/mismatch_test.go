package image

import (
	"context"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// credentialsKeeper keeps the credentials of each pull that reaches the engine.
type credentialsKeeper struct {
	docker.Engine
	pulls []*docker.Auth
}

func (k *credentialsKeeper) PullImage(ctx context.Context, ref string, opts docker.PullOptions) error {
	k.pulls = append(k.pulls, opts.Auth)
	return k.Engine.PullImage(ctx, ref, opts)
}

// A pull with credentials for another registry is anonymous. One warning says so, without the secrets.
func TestCredentialsForAnotherRegistry(t *testing.T) {
	const private, public = "r.example/private:1", "r.example/public:1"
	registry := []dockertest.Image{
		{Names: []string{private}, Auth: &docker.Auth{Username: "user", Password: "s3cret"}},
		{Names: []string{public}},
	}
	for _, tt := range []struct {
		image, server string
		anonymous     bool
		is            func(error) bool
	}{
		{public, "other.example", true, isNil},
		{private, "other.example", true, errdefs.IsUnauthorized},
		{private, "https://r.example/v2/", false, isNil},
		{private, "", false, isNil},
	} {
		t.Run(tt.image+" with "+tt.server, func(t *testing.T) {
			memory := dockertest.New(dockertest.Options{Registry: registry})
			defer memory.Close()
			engine := &credentialsKeeper{Engine: memory}
			logger, hook := logtest.NewNullLogger()
			logger.SetLevel(logrus.TraceLevel)
			ctx := log.WithLogger(t.Context(), logrus.NewEntry(logger))
			auth := &runtimeapi.AuthConfig{Username: "user", Password: "s3cret", ServerAddress: tt.server}
			_, err := newService(t, Options{Engine: engine}).Pull(ctx, spec(tt.image), auth)
			testutil.Assert(t, tt.is(err), "the pull ends with %v", err)
			testutil.Assert(t, len(engine.pulls) == 1 && (engine.pulls[0] == nil) == tt.anonymous,
				"the engine got the credentials %v", engine.pulls)
			checkWarnings(t, hook.AllEntries(), tt.anonymous)
		})
	}
}

func isNil(err error) bool { return err == nil }

// checkWarnings checks that the log has one warning about dropped credentials if want is true, else no warning. No log
// line may have the password.
func checkWarnings(t *testing.T, entries []*logrus.Entry, want bool) {
	t.Helper()
	var warnings []string
	for _, entry := range entries {
		line, err := entry.String()
		testutil.Must(t, err)
		testutil.Assert(t, !strings.Contains(line, "s3cret"), "the log has the password: %s", line)
		if entry.Level <= logrus.WarnLevel {
			warnings = append(warnings, line)
		}
	}
	if !want {
		testutil.Assert(t, len(warnings) == 0, "warnings: %q", warnings)
		return
	}
	testutil.Assert(t, len(warnings) == 1 && strings.Contains(warnings[0], "pulling without them") &&
		strings.Contains(warnings[0], "registry=other.example"),
		"warnings: %q, want one that names the registry", warnings)
}
