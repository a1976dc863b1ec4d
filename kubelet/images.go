package kubelet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/planekit/planekit/kubelet/images"
	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// waitError is an error for a container's waiting state.
type waitError struct {
	reason string
	err    error
}

func (e *waitError) Error() string { return e.err.Error() }
func (e *waitError) Unwrap() error { return e.err }

// withTag adds the default tag to a reference that has neither tag nor digest.
func withTag(image string) string {
	if strings.Contains(image, "@") || strings.LastIndexByte(image, ':') > strings.LastIndexByte(image, '/') {
		return image
	}
	return image + ":latest"
}

// pullPolicy returns the container's policy, or the default: Always for the tag latest, otherwise
// IfNotPresent.
func pullPolicy(c *corev1.Container) corev1.PullPolicy {
	switch {
	case c.ImagePullPolicy != "":
		return c.ImagePullPolicy
	case strings.HasSuffix(withTag(c.Image), ":latest"):
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// ensureImage returns the image of a container, after pulling it if the policy requires it.
func (w *worker) ensureImage(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (*runtimeapi.Image, error) {
	k := w.kubelet
	name := withTag(c.Image)
	policy := pullPolicy(c)
	if policy != corev1.PullAlways {
		image, err := k.imageStatus(ctx, name)
		if err != nil {
			return nil, &waitError{"ImageInspectError", fmt.Errorf("failed to inspect image %q: %w", c.Image, err)}
		}
		if image != nil {
			k.events.Pod(pod, c, corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Container image %q already present on machine", c.Image))
			return image, nil
		}
	}
	if policy == corev1.PullNever {
		said := fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Image)
		k.events.Pod(pod, c, corev1.EventTypeWarning, "ErrImageNeverPull", said)
		return nil, &waitError{"ErrImageNeverPull", errors.New(said)}
	}
	k.events.Pod(pod, c, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.Image))
	start := time.Now()
	image, err := k.pull(ctx, pod, name)
	if err != nil {
		if ctx.Err() == nil {
			w.pullFailed(pod, c, err)
		}
		return nil, &waitError{"ErrImagePull", err}
	}
	delete(w.memory.Pulls, c.Name)
	took := time.Since(start).Truncate(time.Millisecond)
	k.events.Pod(pod, c, corev1.EventTypeNormal, "Pulled", fmt.Sprintf(
		"Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.", c.Image, took, took, image.GetSize()))
	return image, nil
}

// pullFailed records the failure, so that the next pull is delayed.
func (w *worker) pullFailed(pod *corev1.Pod, c *corev1.Container, err error) {
	now := time.Now()
	f := w.memory.Pulls[c.Name]
	if f.Image != c.Image {
		f = lifecycle.PullFailure{Image: c.Image}
	}
	f.Backoff = f.Backoff.Next(now, now)
	f.Failed, f.Reason, f.Message = now, "ErrImagePull", err.Error()
	w.memory.Pulls[c.Name] = f
	w.kubelet.events.Pod(pod, c, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", c.Image, err))
	w.kubelet.events.Pod(pod, c, corev1.EventTypeWarning, "Failed", "Error: ErrImagePull")
}

// imageStatus returns the status of an image; nil if the runtime does not have it.
func (k *Kubelet) imageStatus(ctx context.Context, name string) (*runtimeapi.Image, error) {
	out, err := k.config.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	if err != nil {
		return nil, err
	}
	return out.GetImage(), nil
}

// credentials returns those of a pod's pull secrets that match an image. A missing secret is
// ignored, because the image may not need it.
func (k *Kubelet) credentials(ctx context.Context, pod *corev1.Pod, image string) ([]*runtimeapi.AuthConfig, error) {
	optional := true
	var list []*runtimeapi.AuthConfig
	for _, reference := range pod.Spec.ImagePullSecrets {
		secret, err := k.podConfig.Secret(ctx, pod.Namespace, reference.Name, &optional)
		if err != nil {
			return nil, err
		}
		if secret == nil {
			continue
		}
		found, err := images.Credentials(secret, image)
		if err != nil {
			return nil, fmt.Errorf("secret %s/%s: %w", pod.Namespace, reference.Name, err)
		}
		list = append(list, found...)
	}
	return list, nil
}

// pull pulls an image, trying each matching credential until one works.
func (k *Kubelet) pull(ctx context.Context, pod *corev1.Pod, name string) (*runtimeapi.Image, error) {
	credentials, err := k.credentials(ctx, pod, name)
	if err != nil {
		return nil, err
	}
	if len(credentials) == 0 {
		credentials = []*runtimeapi.AuthConfig{nil}
	}
	var errs []error
	for _, auth := range credentials {
		out, err := k.config.Images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: name}, Auth: auth})
		if err != nil {
			errs = append(errs, answer(err, "PullImage").Err())
			continue
		}
		image, err := k.imageStatus(ctx, out.GetImageRef())
		if err == nil && image == nil {
			err = fmt.Errorf("image %s was pulled and is gone", name)
		}
		return image, err
	}
	return nil, errors.Join(errs...)
}
