package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/images"
	"github.com/planekit/planekit/kubelet/internal/bucket"
	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/machine"
	"github.com/planekit/planekit/kubelet/internal/podusage"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// waitError is an error for a container's waiting state.
type waitError struct {
	reason string
	err    error
	// image means that the error is about an image, and pull that the image could not be pulled.
	image, pull bool
}

func (e *waitError) Error() string { return e.err.Error() }
func (e *waitError) Unwrap() error { return e.err }

// neededImage is an image that a pod needs.
type neededImage struct {
	reference string
	policy    corev1.PullPolicy
	// container is the container that the image is of; nil for a volume. Events are about it or the pod.
	container *corev1.Container
}

// withTag adds the default tag to a reference that has neither tag nor digest.
func withTag(image string) string {
	if strings.Contains(image, "@") || strings.LastIndexByte(image, ':') > strings.LastIndexByte(image, '/') {
		return image
	}
	return image + ":latest"
}

// pullPolicy returns the policy, or the default: Always for the tag latest, otherwise IfNotPresent.
func (n *neededImage) pullPolicy() corev1.PullPolicy {
	switch {
	case n.policy != "":
		return n.policy
	case strings.HasSuffix(withTag(n.reference), ":latest"):
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// ensureImage returns an image, after pulling it if the policy requires it. Errors are *waitErrors.
func (w *worker) ensureImage(ctx context.Context, pod *corev1.Pod, need neededImage, sandbox *runtimeapi.PodSandboxConfig) (*runtimeapi.Image, error) {
	k := w.kubelet
	if err := images.CheckName(need.reference); err != nil {
		said := fmt.Sprintf("Failed to apply default image tag %q: %v", need.reference, err)
		k.events.Pod(pod, need.container, corev1.EventTypeWarning, "InspectFailed", said)
		return nil, &waitError{reason: "InvalidImageName", err: errors.New(said), image: true}
	}
	policy := need.pullPolicy()
	spec, err := k.puller.spec(pod, withTag(need.reference))
	if err != nil {
		return nil, &waitError{reason: "CreateContainerError", err: err}
	}
	if policy != corev1.PullAlways {
		image, err := k.puller.status(ctx, spec)
		if err != nil {
			// The name is empty, as in Kubernetes.
			said := fmt.Sprintf("Failed to inspect image %q: %v", "", err)
			if ctx.Err() == nil {
				k.events.Pod(pod, need.container, corev1.EventTypeWarning, "InspectFailed", said)
			}
			return nil, &waitError{reason: "ImageInspectError", err: errors.New(said), image: true}
		}
		if image != nil {
			k.events.Pod(pod, need.container, corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Container image %q already present on machine", need.reference))
			return image, nil
		}
	}
	if policy == corev1.PullNever {
		said := fmt.Sprintf("Container image %q is not present with pull policy of Never", need.reference)
		k.events.Pod(pod, need.container, corev1.EventTypeWarning, "ErrImageNeverPull", said)
		return nil, &waitError{reason: "ErrImageNeverPull", err: errors.New(said), image: true}
	}
	k.events.Pod(pod, need.container, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", need.reference))
	start := time.Now()
	w.startup.Pulling(start)
	image, pulling, err := k.puller.pull(ctx, pod, spec, sandbox)
	if err != nil {
		if ctx.Err() == nil {
			k.events.Pod(pod, need.container, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", need.reference, err))
		}
		reason, message := images.PullFailure(need.reference, err.Error())
		return nil, &waitError{reason: reason, err: errors.New(message), image: true, pull: true}
	}
	w.startup.Pulled(time.Now())
	k.events.Pod(pod, need.container, corev1.EventTypeNormal, "Pulled", fmt.Sprintf(
		"Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.",
		need.reference, pulling.Truncate(time.Millisecond), time.Since(start).Truncate(time.Millisecond), image.GetSize()))
	return image, nil
}

// ensureImages returns the image of a container, after it has ensured those of the volumes that the
// container mounts, which it keeps by volume in w.imageVolumes. A failure to pull one delays the next
// pull for the container.
func (w *worker) ensureImages(ctx context.Context, pod *corev1.Pod, c *corev1.Container, sandbox *runtimeapi.PodSandboxConfig) (*runtimeapi.Image, error) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		_, done := w.imageVolumes[v.Name]
		if v.Image == nil || done || !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name }) {
			continue
		}
		image, err := w.ensureImage(ctx, pod, neededImage{reference: v.Image.Reference, policy: v.Image.PullPolicy}, sandbox)
		if err != nil {
			w.pullFailed(ctx, c, v.Image.Reference, err)
			return nil, err
		}
		spec, err := w.kubelet.puller.spec(pod, image.GetId())
		if err != nil {
			return nil, err
		}
		spec.UserSpecifiedImage = v.Image.Reference
		w.imageVolumes[v.Name] = spec
	}
	image, err := w.ensureImage(ctx, pod, neededImage{reference: c.Image, policy: c.ImagePullPolicy, container: c}, sandbox)
	if err != nil {
		w.pullFailed(ctx, c, "", err)
		return nil, err
	}
	delete(w.memory.Pulls, c.Name)
	return image, nil
}

// pullFailed records the failure to pull the image of a volume, or if volume is empty of the container,
// so that the next pull is delayed.
func (w *worker) pullFailed(ctx context.Context, c *corev1.Container, volume string, err error) {
	wait, ok := errors.AsType[*waitError](err)
	if !ok || !wait.pull || ctx.Err() != nil {
		return
	}
	now := time.Now()
	f := w.memory.Pulls[c.Name]
	if f.Image != c.Image || f.Volume != volume {
		f = lifecycle.PullFailure{Image: c.Image, Volume: volume}
	}
	f.Backoff = f.Backoff.Next(now, now)
	f.Failed, f.Reason, f.Message = now, wait.reason, wait.Error()
	w.memory.Pulls[c.Name] = f
}

// puller finds and pulls the images of pods. Its methods are safe for concurrent use.
type puller struct {
	images Images
	// handler returns the runtime handler of a pod, and secret one of its pull secrets.
	handler func(pod *corev1.Pod) (string, error)
	secret  func(ctx context.Context, namespace, name string, optional *bool) (*corev1.Secret, error)
	// directories have the node's credentials; see Config.DockerConfigDirs.
	directories []string
	stats       StatsSource // nil if the runtime has none
	queue       *images.Queue
	rate        *bucket.Bucket
	log         logr.Logger
}

func (k *Kubelet) newPuller() *puller {
	c := k.config
	stats, _ := c.Runtime.(StatsSource)
	return &puller{
		images: c.Images, handler: k.runtimeHandler, secret: k.podConfig.Secret, directories: c.DockerConfigDirs,
		stats: stats, queue: c.pulls(), rate: bucket.New(c.PullRate.PerSecond, c.PullRate.Burst), log: k.log,
	}
}

// spec returns the runtime's description of an image that a pod needs.
func (p *puller) spec(pod *corev1.Pod, name string) (*runtimeapi.ImageSpec, error) {
	handler, err := p.handler(pod)
	return &runtimeapi.ImageSpec{Image: name, RuntimeHandler: handler, Annotations: pod.Annotations}, err
}

// status returns the status of an image; nil if the runtime does not have it.
func (p *puller) status(ctx context.Context, spec *runtimeapi.ImageSpec) (*runtimeapi.Image, error) {
	out, err := p.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: spec})
	if err != nil {
		return nil, err
	}
	return out.GetImage(), nil
}

// maxCredentials bounds the credentials of a pod that are tried for an image. Each takes a request to the
// registry while other pulls wait, and one secret can have thousands that match.
const maxCredentials = 16

// credentials returns those of a pod's pull secrets that match an image, and then the node's. A missing
// secret is ignored, because the image may not need it.
func (p *puller) credentials(ctx context.Context, pod *corev1.Pod, image string) ([]*runtimeapi.AuthConfig, error) {
	optional := true
	var list []*runtimeapi.AuthConfig
	read := map[string]bool{}
	for _, reference := range pod.Spec.ImagePullSecrets {
		if len(list) >= maxCredentials || ctx.Err() != nil {
			break
		}
		if read[reference.Name] {
			continue
		}
		read[reference.Name] = true
		secret, err := p.secret(ctx, pod.Namespace, reference.Name, &optional)
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
		list = append(list, found[:min(len(found), maxCredentials-len(list))]...)
	}
	found, err := images.NodeCredentials(p.directories, image)
	if err != nil {
		p.log.Error(err, "credentials of the node left out")
	}
	return append(list, found...), nil
}

// pull pulls an image when it is its turn, trying each matching credential until one works. It returns
// how long the pull took once it had begun.
func (p *puller) pull(ctx context.Context, pod *corev1.Pod, spec *runtimeapi.ImageSpec, sandbox *runtimeapi.PodSandboxConfig) (*runtimeapi.Image, time.Duration, error) {
	credentials, err := p.credentials(ctx, pod, spec.Image)
	if err != nil {
		return nil, 0, err
	}
	if len(credentials) == 0 {
		credentials = []*runtimeapi.AuthConfig{nil}
	}
	leave, err := p.queue.Enter(ctx, images.Source{Namespace: pod.Namespace, Registry: images.Registry(spec.Image)})
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	start := time.Now()
	if _, ok := p.rate.Take(start); !ok {
		return nil, 0, errors.New("pull QPS exceeded")
	}
	bounded, done := p.keepRoom(ctx)
	defer done()
	var errs []error
	for _, auth := range credentials {
		out, err := p.images.PullImage(bounded, &runtimeapi.PullImageRequest{Image: spec, Auth: auth, SandboxConfig: sandbox})
		if full, ok := errors.AsType[*images.NoRoomError](context.Cause(bounded)); ok && err != nil {
			return nil, 0, full
		}
		if err != nil {
			errs = append(errs, answer(err, "PullImage").Err())
			continue
		}
		pulled := &runtimeapi.ImageSpec{Image: out.GetImageRef(), RuntimeHandler: spec.RuntimeHandler, Annotations: spec.Annotations}
		image, err := p.status(ctx, pulled)
		if err == nil && image == nil {
			err = fmt.Errorf("image %s was pulled and is gone", spec.Image)
		}
		return image, time.Since(start), err
	}
	return nil, 0, errors.Join(errs...)
}

// keepRoom is [images.KeepRoom] for the runtime's images. The runtime is asked for their place once, because
// it adds up the sizes of all of them for each response.
func (p *puller) keepRoom(ctx context.Context) (context.Context, func()) {
	if p.stats == nil {
		return ctx, func() {}
	}
	path, err := podusage.ImagePath(ctx, p.stats)
	if err != nil {
		p.log.Error(err, "the room for images is not known")
		return ctx, func() {}
	}
	return images.KeepRoom(ctx, func() (capacity, available int64, err error) {
		fs, err := machine.FileSystemOf(path)
		return fs.Capacity, fs.Available, err
	})
}

// newCollector returns what removes unused images; nil if the runtime cannot.
func (k *Kubelet) newCollector() (*images.Collector, error) {
	service, ok := k.config.Images.(ImageRemover)
	stats, measures := k.config.Runtime.(StatsSource)
	if !ok || !measures {
		return nil, nil
	}
	c := k.config.ImageGC
	return images.New(images.Config{
		Images: service, InUse: k.imagesInUse,
		FileSystem: func(ctx context.Context) (capacity, available int64, err error) {
			fs, err := podusage.ImageFileSystem(ctx, stats)
			return fs.Capacity, fs.Available, err
		},
		High: c.High, Low: c.Low, MinAge: c.MinAge, MaxAge: c.MaxAge, Keep: c.Keep,
		Event: func(reason, message string) { k.events.Node(corev1.EventTypeWarning, reason, message) },
		Log:   k.log,
	})
}

// imagesInUse returns the images of all containers in the runtime, also those of other kubelets.
func (k *Kubelet) imagesInUse(ctx context.Context) ([]string, error) {
	list, err := k.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range list.GetContainers() {
		names = append(names, c.GetImage().GetImage(), c.GetImageRef(), c.GetImageId())
	}
	return names, nil
}

// reclaim removes unused images if that can relieve the pressure. It reports whether it has removed
// any.
func (e *evictor) reclaim(ctx context.Context, pressure eviction.Pressure) (bool, error) {
	collector := e.kubelet.collector
	if collector == nil || e.kubelet.config.ImageGC.High == 100 || !eviction.Disk(pressure.Threshold.Signal) {
		return false, nil
	}
	if eviction.Pods(pressure.Threshold.Signal) {
		pods, err := machine.FileSystemOf(e.kubelet.config.Root)
		if err != nil {
			return false, err
		}
		if images, err := podusage.ImageFileSystem(ctx, e.stats); err != nil || images.ID != pods.ID {
			return false, err
		}
	}
	freed, err := collector.RemoveUnused(ctx)
	return freed > 0, err
}
