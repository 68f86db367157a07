package podconfig

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
)

// maxManifest is the largest size of a manifest in bytes.
const maxManifest = 10 << 20

// document is the cached state of one manifest: a file, or a URL's answer.
type document struct {
	hash     [sha256.Size]byte // of the last content
	err      error             // of the last content
	reported string            // the last reported problem, or empty
	pods     []*v1.Pod
	objects  manifest.Objects
}

// read parses the manifest's content and returns its errors. If the content has errors, its readable pods replace their
// earlier versions, and all other earlier pods stay. Unchanged content changes nothing.
func (d *document) read(content []byte, origin manifest.Origin) error {
	hash := sha256.Sum256(content)
	if hash == d.hash {
		return d.err
	}
	docs, err := manifest.Parse(content)
	pods, podErr := accept(docs.Pods, origin)
	if err = errors.Join(err, podErr); err == nil {
		d.pods, d.objects = pods, docs.Objects
	} else {
		d.keep(pods, docs)
	}
	d.hash, d.err = hash, err
	return err
}

// keep takes the readable pods of a manifest with errors. It keeps earlier pods with other names.
func (d *document) keep(pods []*v1.Pod, docs manifest.Documents) {
	for _, old := range d.pods {
		if !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return model.FullName(p) == model.FullName(old) }) {
			pods = append(pods, old)
		}
	}
	d.pods = pods
	d.objects.Add(docs.Objects)
}

// report calls problem with an error that differs from the last reported one, and with nil when the error is over. If
// problem is nil, report logs instead.
func (d *document) report(ctx context.Context, problem func(where string, err error), where string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == d.reported {
		return
	}
	d.reported = text
	switch {
	case problem != nil:
		problem(where, err)
	case err != nil:
		log.G(ctx).WithError(err).WithField("manifest", where).
			Error("manifest has errors, its earlier pods and objects stay")
	default:
		log.G(ctx).WithField("manifest", where).Info("manifest has no errors any more")
	}
}

// accept makes the pods static pods of this node, and leaves out pods that cannot run.
func accept(pods []*v1.Pod, origin manifest.Origin) ([]*v1.Pod, error) {
	var accepted []*v1.Pod
	var errs []error
	for _, pod := range pods {
		name := pod.Name
		if err := manifest.Static(pod, origin); err != nil {
			errs = append(errs, err)
			continue
		}
		manifest.SetDefaults(pod)
		if err := manifest.Validate(pod); err != nil {
			errs = append(errs, fmt.Errorf("pod %s: %w", name, err))
			continue
		}
		accepted = append(accepted, pod)
	}
	return accepted, errors.Join(errs...)
}
