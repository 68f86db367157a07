package image

import (
	"errors"
	"fmt"
	"regexp"

	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/docker"
)

// pullError adds the kubelet's sentinel to an engine error that means a failure of the registry.
func pullError(err error) error {
	if errors.Is(err, docker.ErrRegistryUnavailable) {
		return fmt.Errorf("%w: %w", crierrors.ErrRegistryUnavailable, err)
	}
	return err
}

// query matches the query of a URL. A registry redirects to URLs whose query has a signature: they need no other
// credentials.
var query = regexp.MustCompile(`(\w://[^\s"'?]+\?)[^\s"']*[^\s"':;,.\\]`)

// withoutQueries hides the queries of URLs in an error's text. The kubelet shows the text in events of the pod, and the
// readers of events may not be allowed to pull the image.
func withoutQueries(err error) error {
	if err == nil || !query.MatchString(err.Error()) {
		return err
	}
	return hiddenQueries{err}
}

// hiddenQueries is an error whose text has no queries of URLs.
type hiddenQueries struct{ error }

// Error implements error.
func (h hiddenQueries) Error() string { return query.ReplaceAllString(h.error.Error(), "${1}…") }

// Unwrap returns the error with its whole text.
func (h hiddenQueries) Unwrap() error { return h.error }
