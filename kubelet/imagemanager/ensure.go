package imagemanager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/log"
	"github.com/distribution/reference"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/backoff"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Secrets has the pull secrets of pods. A missing secret is an errdefs.ErrNotFound.
type Secrets interface {
	Secret(pod *v1.Pod, name string) (*v1.Secret, error)
}

// Options configure a Puller. Service is required.
type Options struct {
	Service *Images
	// Secrets resolves imagePullSecrets. Nil ignores them.
	Secrets Secrets
	// Files are Docker configuration files. They are read with each pull, and their credentials are tried after the
	// secrets. Missing files are ignored.
	Files []string
	// Backoff is the pause after a failed pull.
	Backoff backoff.Options
	// Parallel is how many images are pulled at once. Zero means one, as in the kubelet.
	Parallel int
	// Pulled records pulled images; nil records nothing.
	Pulled *Pulled
	// Access records the credentials of pulls. Nil lets all pods use present images.
	Access *Access
	// Verification and Allowlist say for which images Access decides, see CheckVerification.
	Verification Verification
	Allowlist    []string
}

// Puller pulls images. It is safe for concurrent use.
type Puller struct {
	opts    Options
	backoff *backoff.Backoff
	slots   chan struct{}

	mu sync.Mutex
	// failed has the errors of the last pulls, by the keys of backoff.
	failed map[string]error
}

// New makes a puller.
func New(opts Options) *Puller {
	return &Puller{opts: opts, backoff: backoff.New(opts.Backoff), slots: make(chan struct{}, max(1, opts.Parallel)),
		failed: map[string]error{}}
}

// Request is an image that a container runs or mounts.
type Request struct {
	Pod *v1.Pod
	// Image is the image's name in the pod.
	Image   string
	Policy  v1.PullPolicy
	Sandbox *runtimeapi.PodSandboxConfig
	// Record records an event.
	Record func(reason, message string)
}

// Ensure returns an image, and pulls it if the policy says so. An error is a model.ReasonError, unless ctx ends before
// the pull. The duration is the pause before another try makes sense, 0 if unknown.
func (p *Puller) Ensure(ctx context.Context, r Request) (*runtimeapi.Image, time.Duration, error) {
	name := r.Image
	if _, err := reference.ParseNormalizedNamed(name); err != nil {
		return nil, 0, uninspected(r, model.ReasonInvalidImageName, err)
	}
	image, err := p.status(ctx, name, name)
	if err != nil {
		return nil, 0, uninspected(r, model.ReasonImageInspectError, err)
	}
	if image != nil && r.Policy != v1.PullAlways && p.allowed(r, image) {
		r.Record("Pulled",
			fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", name))
		return image, 0, nil
	}
	if r.Policy == v1.PullNever {
		return nil, 0, neverPull(r)
	}
	key := string(r.Pod.UID) + "_" + name
	if wait := p.backoff.Remaining(key, p.backoff.Failed(key)); wait > 0 {
		return nil, wait, p.backingOff(key, r)
	}
	credentials, err := p.credentials(r)
	if err != nil {
		r.Record("Failed", fmt.Sprintf("Failed to pull image %q: %v", name, err))
		err = pullError(err)
		return nil, p.setFailed(key, err), err
	}
	// As in the kubelet, the event comes before the wait for other pulls.
	r.Record("Pulling", fmt.Sprintf("Pulling image %q", name))
	asked := time.Now()
	free, err := p.slot(ctx)
	if err != nil {
		return nil, 0, err // no pull failed: there is no back-off
	}
	defer free()
	image, err = p.pull(ctx, r, credentials, image, asked)
	if err != nil {
		return nil, p.setFailed(key, err), err
	}
	p.forget(func(k string) bool { return k == key })
	return image, 0, nil
}

// backingOff records and returns the error of an image whose pull waits for the end of its back-off. As in the kubelet,
// the error contains the error of the last pull. The event does not contain it: equal events are counted as one.
func (p *Puller) backingOff(key string, r Request) error {
	text := fmt.Sprintf("Back-off pulling image %q", r.Image) // the kubelet's text
	r.Record("BackOff", text)
	err := errors.New(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := p.failed[key]; last != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return &model.ReasonError{Reason: model.ReasonImagePullBackOff, Err: err}
}

// setFailed begins a back-off, and returns the time until the next sync. The sync in the middle of the pause shows
// ImagePullBackOff.
func (p *Puller) setFailed(key string, err error) (again time.Duration) {
	now := time.Now()
	p.backoff.Fail(key, now)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed[key] = err
	return p.backoff.Remaining(key, now) / 2
}

// uninspected records and returns the error of an image that cannot be looked up.
func uninspected(r Request, reason string, err error) error {
	r.Record("InspectFailed", fmt.Sprintf("Failed to inspect image %q: %v", r.Image, err))
	return &model.ReasonError{Reason: reason, Err: err}
}

// neverPull records and returns the error of the pull policy Never, for an image that is missing or that the pod may
// not use. As in the kubelet, the error is the same in both cases: a pod must not find out which private images are
// present.
func neverPull(r Request) error {
	err := fmt.Errorf("container image %q is not present, or was pulled with credentials that the pod lacks, and its "+
		"pull policy is Never", r.Image)
	r.Record(model.ReasonErrImageNeverPull, err.Error())
	return &model.ReasonError{Reason: model.ReasonErrImageNeverPull, Err: err}
}

// status returns an image by name or id, nil if it is missing. written is the image's name in the pod.
func (p *Puller) status(ctx context.Context, name, written string) (*runtimeapi.Image, error) {
	answer, err := p.opts.Service.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: name, UserSpecifiedImage: written},
		false)
	if err != nil {
		return nil, err
	}
	return answer.GetImage(), nil
}

// slot waits until fewer than Parallel pulls run. free ends the caller's use of the slot.
func (p *Puller) slot(ctx context.Context) (free func(), err error) {
	select {
	case p.slots <- struct{}{}:
		return func() { <-p.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pull pulls an image. Had is the image of that name before the pull, or nil. asked is when the pull was requested.
func (p *Puller) pull(
	ctx context.Context, r Request, credentials []credential, had *runtimeapi.Image, asked time.Time,
) (*runtimeapi.Image, error) {
	name := r.Image
	before := p.present(ctx, had)
	began := time.Now()
	image, err := p.recorded(name, before, func() outcome { return p.transferred(ctx, r, credentials) })
	if err != nil {
		return nil, err
	}
	took, waited := time.Since(began).Truncate(time.Millisecond), time.Since(asked).Truncate(time.Millisecond)
	if before != nil && !before[image.GetId()] {
		if err := p.opts.Pulled.add(image.GetId()); err != nil {
			log.G(ctx).WithError(err).WithField("image", name).
				Warn("pulled image could not be recorded, so garbage collection may keep it after a restart")
		}
	}
	r.Record("Pulled", fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.",
		name, took, waited, image.GetSize()))
	return image, nil
}

// outcome is the outcome of a pull.
type outcome struct {
	image *runtimeapi.Image
	// used is the credential that pulled the image, nil without one.
	used *credential
	err  error
	// unknown says that the runtime may have the image, or may still get it, although there is an error.
	unknown bool
}

// recorded calls pull and records its outcome in Access. before has the ids of the images that were present before the
// pull.
func (p *Puller) recorded(name string, before map[string]bool, pull func() outcome) (*runtimeapi.Image, error) {
	access := p.opts.Access
	if access == nil {
		end := pull()
		return end.image, end.err
	}
	unfinished, err := access.begin(name)
	if err != nil {
		return nil, pullError(err)
	}
	end := pull()
	if end.err != nil {
		return nil, errors.Join(end.err, access.failed(name, !end.unknown))
	}
	id := end.image.GetId()
	if err := access.pulled(name, id, end.used, before[id] && !unfinished); err != nil {
		return nil, pullError(err)
	}
	return end.image, nil
}

// cutOff reports whether an error leaves the outcome of a call open: the runtime may still finish the call.
func cutOff(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	code := status.Code(err)
	return code == codes.Canceled || code == codes.DeadlineExceeded || code == codes.Unavailable
}

// transferred pulls an image, and gets the pulled image's status.
func (p *Puller) transferred(ctx context.Context, r Request, credentials []credential) outcome {
	ref, used, errs := p.transfer(ctx, r, credentials)
	if len(errs) > 0 {
		err := errors.Join(errs...)
		r.Record("Failed", fmt.Sprintf("Failed to pull image %q: %v", r.Image, err))
		return outcome{err: pullError(err), unknown: slices.ContainsFunc(errs, cutOff)}
	}
	image, err := p.status(ctx, ref, r.Image)
	if err == nil && image == nil {
		err = fmt.Errorf("the runtime pulled %q as %q and does not have it", r.Image, ref)
	}
	if err != nil { // the runtime may have the image despite the error
		return outcome{err: &model.ReasonError{Reason: model.ReasonImageInspectError, Err: err}, unknown: true}
	}
	return outcome{image: image, used: used}
}

// present returns the ids of the images before a pull, or nil if pulls are not recorded or the list failed. With nil
// the pulled image is not recorded in Pulled.
func (p *Puller) present(ctx context.Context, had *runtimeapi.Image) map[string]bool {
	if p.opts.Pulled == nil {
		return nil
	}
	images, err := p.opts.Service.recent(ctx)
	if err != nil {
		log.G(ctx).WithError(err).Debug("images before a pull could not be listed")
		return nil
	}
	ids := map[string]bool{had.GetId(): true}
	for _, image := range images {
		ids[image.GetId()] = true
	}
	return ids
}

// transfer pulls the image. It tries the credentials in turn until one works. If none works, it returns all errors.
func (p *Puller) transfer(
	ctx context.Context, r Request, credentials []credential,
) (ref string, used *credential, errs []error) {
	spec := &runtimeapi.ImageSpec{Image: r.Image, UserSpecifiedImage: r.Image}
	if len(credentials) == 0 {
		ref, err := p.opts.Service.PullImage(ctx, spec, nil, r.Sandbox)
		if err != nil {
			return "", nil, []error{err}
		}
		return ref, nil, nil
	}
	for i := range credentials {
		ref, err := p.opts.Service.PullImage(ctx, spec, credentials[i].AuthConfig, r.Sandbox)
		if err == nil {
			return ref, &credentials[i], nil
		}
		errs = append(errs, err)
	}
	return "", nil, errs
}

// pullError adds the reason to the error of a failed pull. Runtimes begin the error's message with one of the CRI's
// reasons.
func pullError(err error) error {
	for _, reason := range []string{"RegistryUnavailable", "SignatureValidationFailed"} {
		if strings.HasPrefix(err.Error(), reason) {
			return &model.ReasonError{Reason: reason,
				Err: errors.New(strings.TrimPrefix(strings.TrimPrefix(err.Error(), reason), ": "))}
		}
	}
	return &model.ReasonError{Reason: model.ReasonErrImagePull, Err: err}
}

// Forget drops the back-offs of a pod.
func (p *Puller) Forget(uid string) {
	p.forget(func(key string) bool { return strings.HasPrefix(key, uid+"_") })
}

func (p *Puller) forget(match func(key string) bool) {
	p.backoff.Forget(match)
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.failed, func(key string, _ error) bool { return match(key) })
}
