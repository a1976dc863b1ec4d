// Package alwayspullimages has every image pulled anew, with the credentials of
// the pod that wants it: the AlwaysPullImages plugin of Kubernetes
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#alwayspullimages).
//
//	chain := admission.Chain{
//		Mutators:   []admission.Mutator{alwayspullimages.Plugin{}},
//		Validators: []admission.Validator{alwayspullimages.Plugin{}},
//	}
//
// Without it who knows the name of a private image runs it on any node that has it
// already. The pull policy of every container becomes Always, of init and
// ephemeral containers and of volumes that are images too; as a validator the
// plugin refuses with 403 what another plugin made of it. An update that brings no
// new image passes as it is, so that pods from before the plugin was enabled can
// still be changed.
//
// The subresource ephemeralcontainers is looked at as well, which Kubernetes does
// not: it is the way for an ephemeral container to come into a pod. Of such a
// request the containers that it adds count.
package alwayspullimages

import (
	"context"
	"iter"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/podspec"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Name is what the plugin is called in --enable-admission-plugins.
const Name = "AlwaysPullImages"

// Plugin is an [admission.Mutator] and an [admission.Validator]. The zero Plugin is
// ready.
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
		// A volume's source may be shared with the pod as it is stored.
		if source := pod.Spec.Volumes[i].Image; source != nil && source.PullPolicy != corev1.PullAlways {
			always := *source
			always.PullPolicy = corev1.PullAlways
			pod.Spec.Volumes[i].Image = &always
		}
	}
	return nil
}

// Validate refuses a pod with any other pull policy. All are named.
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

// containers are those that r decides about: all, or those that it adds.
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

// volumes are those that r decides about.
func volumes(r *admission.Request, pod *corev1.Pod) []corev1.Volume {
	if r.Subresource == ephemeral {
		return nil
	}
	return pod.Spec.Volumes
}

// concerned returns the pod of a request, unless it updates one without a new
// image.
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
