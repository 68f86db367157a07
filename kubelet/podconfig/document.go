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

// maxManifest bounds a manifest's size in bytes; larger ones are refused.
const maxManifest = 10 << 20

// document is what is known of one manifest, a file or what a URL answers.
type document struct {
	hash       [sha256.Size]byte // of what was read last
	err        error             // what is wrong with it
	reported   string            // the problem that was reported last, empty for none
	pods       []*v1.Pod
	configMaps []*v1.ConfigMap
	secrets    []*v1.Secret
}

// read takes the manifest's content and returns what is wrong with it. Content with errors takes nothing away: what
// could be read of it is taken, and what it does not name any more stays. The same content again changes nothing.
func (d *document) read(content []byte, origin manifest.Origin) error {
	hash := sha256.Sum256(content)
	if hash == d.hash {
		return d.err
	}
	docs, err := manifest.Parse(content)
	pods, podErr := accept(docs.Pods, origin)
	if err = errors.Join(err, podErr); err == nil {
		d.pods, d.configMaps, d.secrets = pods, docs.ConfigMaps, docs.Secrets
	} else {
		d.keep(pods, docs)
	}
	d.hash, d.err = hash, err
	return err
}

// keep takes what could be read of a manifest with errors, and leaves what it named before.
func (d *document) keep(pods []*v1.Pod, docs manifest.Documents) {
	for _, old := range d.pods {
		if !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return model.FullName(p) == model.FullName(old) }) {
			pods = append(pods, old)
		}
	}
	d.pods = pods
	d.configMaps = append(d.configMaps, docs.ConfigMaps...) // the last of a name wins
	d.secrets = append(d.secrets, docs.Secrets...)
}

// report reports a problem once: again when it is another one, and with nil when there is none any more. Without a
// function it is logged.
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
		log.G(ctx).WithError(err).WithField("manifest", where).Error("manifest has errors, what it named before stays")
	default:
		log.G(ctx).WithField("manifest", where).Info("manifest is right again")
	}
}

// accept makes the pods static ones of this node, and leaves out those that cannot be run.
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
