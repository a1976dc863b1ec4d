// Package alwayspullimages makes nodes pull every image, with the credentials of its pod, each
// time: the AlwaysPullImages plugin of Kubernetes
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#alwayspullimages).
//
//	chain := admission.Chain{
//		Mutators:   []admission.Mutator{alwayspullimages.Plugin{}},
//		Validators: []admission.Validator{alwayspullimages.Plugin{}},
//	}
//
// Without it, a user that knows the name of a private image can run it on any node that has pulled
// it. The plugin sets the pull policy of every container to Always, including init and ephemeral
// containers and image volumes. As a validator it refuses pods that another plugin has changed,
// with 403. An update without new images passes, so that pods from before the plugin was enabled
// can be changed.
//
// Unlike Kubernetes, the plugin also checks the subresource ephemeralcontainers, by which ephemeral
// containers are added to a pod. Only the added containers are checked.
package alwayspullimages

import (
	"context"
	"iter"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/podspec"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Name is the plugin's name in --enable-admission-plugins.
const Name = "AlwaysPullImages"

// Plugin is an [admission.Mutator] and an [admission.Validator]. The zero value is ready to use.
type Plugin struct{}

// Mutate sets the pull policies of a pod.
func (Plugin) Mutate(_ context.Context, r *admission.Request) error {
	pod, ok := concerned(r)
	if !ok {
		return nil
	}
	for _, c := range containers(r, pod) {
		c.ImagePullPolicy = corev1.PullAlways
	}
	for i := range volumes(r, pod) {
		// The stored pod may share the source of a volume.
		if source := pod.Spec.Volumes[i].Image; source != nil && source.PullPolicy != corev1.PullAlways {
			always := *source
			always.PullPolicy = corev1.PullAlways
			pod.Spec.Volumes[i].Image = &always
		}
	}
	return nil
}

// Validate refuses a pod with any other pull policy. The error lists all of them.
func (Plugin) Validate(_ context.Context, r *admission.Request) error {
	pod, ok := concerned(r)
	if !ok {
		return nil
	}
	var problems field.ErrorList
	refuse := func(at *field.Path, policy corev1.PullPolicy) {
		problems = append(problems, field.NotSupported(at, policy, []corev1.PullPolicy{corev1.PullAlways}))
	}
	for place, c := range containers(r, pod) {
		if c.ImagePullPolicy != corev1.PullAlways {
			refuse(place.Path().Child("imagePullPolicy"), c.ImagePullPolicy)
		}
	}
	for i, v := range volumes(r, pod) {
		if v.Image != nil && v.Image.PullPolicy != corev1.PullAlways {
			refuse(field.NewPath("spec", "volumes").Index(i).Child("image", "pullPolicy"), v.Image.PullPolicy)
		}
	}
	if len(problems) > 0 {
		return admission.Forbidden(r, problems.ToAggregate())
	}
	return nil
}

// ephemeral is the subresource that adds ephemeral containers to a pod.
const ephemeral = "ephemeralcontainers"

// containers returns the containers that r concerns: all, or those that it adds.
func containers(r *admission.Request, pod *corev1.Pod) iter.Seq2[podspec.Place, *corev1.Container] {
	if r.Subresource != ephemeral {
		return podspec.Containers(&pod.Spec)
	}
	there := map[string]bool{}
	if old, ok := r.OldObject.(*corev1.Pod); ok {
		for _, c := range podspec.Containers(&old.Spec) {
			there[c.Name] = true
		}
	}
	return func(yield func(podspec.Place, *corev1.Container) bool) {
		for place, c := range podspec.Containers(&pod.Spec) {
			if !there[c.Name] && !yield(place, c) {
				return
			}
		}
	}
}

// volumes returns the volumes that r concerns.
func volumes(r *admission.Request, pod *corev1.Pod) []corev1.Volume {
	if r.Subresource == ephemeral {
		return nil
	}
	return pod.Spec.Volumes
}

// concerned returns the pod of a request, unless it is an update without a new image.
func concerned(r *admission.Request) (*corev1.Pod, bool) {
	pod, ok := podspec.Of(r, ephemeral)
	if !ok || r.Operation != admission.Update {
		return pod, ok
	}
	old, ok := r.OldObject.(*corev1.Pod)
	if !ok {
		return pod, true
	}
	for _, c := range podspec.Containers(&pod.Spec) {
		if !uses(old, c.Image) {
			return pod, true
		}
	}
	return nil, false
}

func uses(pod *corev1.Pod, image string) bool {
	for _, c := range podspec.Containers(&pod.Spec) {
		if c.Image == image {
			return true
		}
	}
	return false
}
