package imagemanager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/backoff"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Secrets is where a pod's pull secrets come from. A missing one is an errdefs.ErrNotFound.
type Secrets interface {
	Secret(pod *v1.Pod, name string) (*v1.Secret, error)
}

// Options configure a Puller. Service is required.
type Options struct {
	Service *Images
	// Secrets answers imagePullSecrets; nil pulls everything without credentials.
	Secrets Secrets
	// Files are Docker's configuration files, whose credentials count after those of the pod's secrets. Those that do
	// not exist are left out; they are read with each pull.
	Files []string
	// Backoff is the pause after pulls that failed.
	Backoff backoff.Options
	// Parallel is how many images are pulled at once. Zero means one, as the kubelet.
	Parallel int
	// Pulled remembers what was pulled; nil remembers nothing.
	Pulled *Pulled
}

// Puller makes images present. It is safe for concurrent use.
type Puller struct {
	opts    Options
	backoff *backoff.Backoff
	slots   chan struct{}
}

// New makes a puller.
func New(opts Options) *Puller {
	return &Puller{opts: opts, backoff: backoff.New(opts.Backoff), slots: make(chan struct{}, max(1, opts.Parallel))}
}

// Request is an image that a container runs or mounts.
type Request struct {
	Pod *v1.Pod
	// Image is the name in the pod, Policy when to pull it.
	Image  string
	Policy v1.PullPolicy
	// Sandbox is passed to the runtime with a pull.
	Sandbox *runtimeapi.PodSandboxConfig
	// Record is called with a word and a sentence before and after a pull, for events.
	Record func(reason, message string)
}

// Ensure returns an image, pulled where its policy asks for that. Errors are model.ReasonError; the
// duration is how long to wait before another try makes sense, 0 for not known.
func (p *Puller) Ensure(ctx context.Context, r Request) (*runtimeapi.Image, time.Duration, error) {
	name := r.Image
	image, err := p.status(ctx, name, name)
	if err != nil {
		return nil, 0, &model.ReasonError{Reason: model.ReasonImageInspectError, Err: err}
	}
	switch {
	case image != nil && r.Policy != v1.PullAlways:
		r.Record("Pulled", fmt.Sprintf("Container image %q already present on machine", name))
		return image, 0, nil
	case image == nil && r.Policy == v1.PullNever:
		return nil, 0, &model.ReasonError{
			Reason: model.ReasonErrImageNeverPull,
			Err:    fmt.Errorf("container image %q is not present and its pull policy is Never", name),
		}
	}
	key := string(r.Pod.UID) + "_" + name
	if wait := p.backoff.Remaining(key, p.backoff.Failed(key)); wait > 0 {
		err := &model.ReasonError{Reason: model.ReasonImagePullBackOff, Err: fmt.Errorf("back-off pulling image %q", name)}
		r.Record("BackOff", err.Err.Error())
		return nil, wait, err
	}
	image, err = p.pull(ctx, r, image)
	if err != nil {
		now := time.Now()
		p.backoff.Fail(key, now)
		// A look in the middle of the pause shows that there is one.
		return nil, p.backoff.Remaining(key, now) / 2, err
	}
	p.backoff.Forget(func(k string) bool { return k == key })
	return image, 0, nil
}

// status asks for an image by its name or id; written is what the pod calls it.
func (p *Puller) status(ctx context.Context, name, written string) (*runtimeapi.Image, error) {
	answer, err := p.opts.Service.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: name, UserSpecifiedImage: written}, false)
	if err != nil {
		return nil, err
	}
	return answer.GetImage(), nil
}

// pull pulls an image. Had is what the runtime has of that name before, nil for nothing.
func (p *Puller) pull(ctx context.Context, r Request, had *runtimeapi.Image) (*runtimeapi.Image, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	name := r.Image
	credentials, err := p.credentials(r)
	if err != nil {
		r.Record("Failed", fmt.Sprintf("Failed to pull image %q: %v", name, err))
		return nil, pullError(err)
	}
	r.Record("Pulling", fmt.Sprintf("Pulling image %q", name))
	began := time.Now()
	before := p.present(ctx, had)
	ref, err := p.transfer(ctx, r, credentials)
	if err != nil {
		r.Record("Failed", fmt.Sprintf("Failed to pull image %q: %v", name, err))
		return nil, pullError(err)
	}
	image, err := p.status(ctx, ref, name)
	if err == nil && image == nil {
		err = fmt.Errorf("the runtime pulled %q as %q and does not have it", name, ref)
	}
	if err != nil {
		return nil, &model.ReasonError{Reason: model.ReasonImageInspectError, Err: err}
	}
	if before != nil && !before[image.GetId()] {
		if err := p.opts.Pulled.add(image.GetId()); err != nil {
			log.G(ctx).WithError(err).WithField("image", name).Warn("pulled image is never collected: it could not be written down")
		}
	}
	r.Record("Pulled", fmt.Sprintf("Successfully pulled image %q in %v", name, time.Since(began).Round(time.Millisecond)))
	return image, nil
}

// present are the ids of the images that the runtime has before a pull. It is nil when no pull is remembered, or when
// the runtime does not say: then the image counts as one that was there.
func (p *Puller) present(ctx context.Context, had *runtimeapi.Image) map[string]bool {
	if p.opts.Pulled == nil {
		return nil
	}
	images, err := p.opts.Service.recent(ctx)
	if err != nil {
		log.G(ctx).WithError(err).Debug("images before a pull could not be listed")
		return nil
	}
	ids := map[string]bool{had.GetId(): true} // it may be newer than the list
	for _, image := range images {
		ids[image.GetId()] = true
	}
	return ids
}

// transfer has the runtime pull the image, with each of the credentials until one will do.
func (p *Puller) transfer(ctx context.Context, r Request, credentials []*runtimeapi.AuthConfig) (ref string, err error) {
	spec := &runtimeapi.ImageSpec{Image: r.Image, UserSpecifiedImage: r.Image}
	if len(credentials) == 0 {
		return p.opts.Service.PullImage(ctx, spec, nil, r.Sandbox)
	}
	var errs []error
	for _, auth := range credentials {
		if ref, err = p.opts.Service.PullImage(ctx, spec, auth, r.Sandbox); err == nil {
			return ref, nil
		}
		errs = append(errs, err)
	}
	if len(errs) == 1 {
		return "", errs[0]
	}
	return "", errors.Join(errs...)
}

// pullError finds the word for a failed pull: runtimes begin their message with one that they know of.
func pullError(err error) error {
	for _, reason := range []string{"RegistryUnavailable", "SignatureValidationFailed"} {
		if strings.HasPrefix(err.Error(), reason) {
			return &model.ReasonError{Reason: reason, Err: errors.New(strings.TrimPrefix(strings.TrimPrefix(err.Error(), reason), ": "))}
		}
	}
	return &model.ReasonError{Reason: model.ReasonErrImagePull, Err: err}
}

// Forget drops the pauses of a pod that is gone.
func (p *Puller) Forget(uid string) {
	p.backoff.Forget(func(key string) bool { return strings.HasPrefix(key, uid+"_") })
}
