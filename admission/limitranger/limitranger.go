// Package limitranger gives containers the default sizes of their namespace and
// keeps pods and claims within its limits: the LimitRanger plugin of Kubernetes
// (https://kubernetes.io/docs/concepts/policy/limit-range/).
//
//	limits, err := limitranger.New(limitranger.Config{ByNamespace: index, Lookup: list})
//	chain := admission.Chain{
//		Mutators:   []admission.Mutator{limits},
//		Validators: []admission.Validator{limits},
//	}
//
// A new pod's containers and init containers get the requests and limits which
// they do not give, and the pod the annotation [Annotation] that tells of it.
// A new pod, a pod that is resized and a claim that is made or changed must then
// respect all limit ranges of the namespace; what does not is refused with 403
// and every reason. Ephemeral containers have no sizes.
//
// The local copy may be behind. When it has no limit range of a namespace, the
// namespace is looked at where it is stored, at most every half a minute. So a
// limit range works at once where there was none, and one that changes works
// when the copy has heard of it. When a look-up fails the request is refused.
package limitranger

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/internal/recent"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotation, on a pod, tells what this plugin gave to its containers.
const Annotation = "kubernetes.io/limit-ranger"

// remembered is for how long a look-up is believed; Kubernetes has the same.
const remembered = 30 * time.Second

// Config says where limit ranges are known from. Both fields must be set.
type Config struct {
	// ByNamespace is a local copy of all limit ranges, by namespace.
	ByNamespace localcache.Index[string, *corev1.LimitRange]
	// Lookup reads the limit ranges of a namespace from where they are stored.
	Lookup func(ctx context.Context, namespace string) ([]*corev1.LimitRange, error)
}

// Plugin is an [admission.Mutator] and an [admission.Validator].
type Plugin struct {
	config  Config
	lookups *recent.Lookups[[]*corev1.LimitRange]
}

// New returns the plugin.
func New(c Config) (*Plugin, error) {
	if c.ByNamespace == nil || c.Lookup == nil {
		return nil, errors.New("limitranger: ByNamespace and Lookup must be set")
	}
	return &Plugin{config: c, lookups: recent.New[[]*corev1.LimitRange](remembered)}, nil
}

// Mutate gives the containers of a pod their default sizes.
func (p *Plugin) Mutate(ctx context.Context, r *admission.Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || !concerns(r) {
		return nil
	}
	ranges, err := p.ranges(ctx, r)
	if err != nil {
		return err
	}
	for _, l := range ranges {
		complete(pod, l)
	}
	return nil
}

// Validate refuses what is beyond a limit.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	if !concerns(r) {
		return nil
	}
	ranges, err := p.ranges(ctx, r)
	if err != nil {
		return err
	}
	for _, l := range ranges {
		var err error
		switch object := r.Object.(type) {
		case *corev1.Pod:
			err = checkPod(object, l)
		case *corev1.PersistentVolumeClaim:
			err = checkClaim(object, l)
		}
		if err != nil {
			return admission.Forbidden(r, err)
		}
	}
	return nil
}

// concerns reports whether sizes are given in r: an update cannot change those
// of a pod, unless it is made to its subresource "resize".
func concerns(r *admission.Request) bool {
	if r.Resource.Group != corev1.GroupName || r.Operation != admission.Create && r.Operation != admission.Update {
		return false
	}
	if old, ok := r.OldObject.(metav1.Object); ok && old.GetDeletionTimestamp() != nil {
		return false
	}
	switch r.Resource.Resource {
	case "pods":
		return r.Operation == admission.Create && r.Subresource == "" || r.Operation == admission.Update && r.Subresource == "resize"
	case "persistentvolumeclaims":
		return r.Subresource == ""
	}
	return false
}

// ranges are the limit ranges of the request's namespace, by name.
func (p *Plugin) ranges(ctx context.Context, r *admission.Request) ([]*corev1.LimitRange, error) {
	ranges := slices.Collect(p.config.ByNamespace.Get(r.Namespace))
	if len(ranges) == 0 {
		found, err := p.lookups.Get(ctx, r.Namespace, p.config.Lookup)
		if err != nil {
			return nil, admission.Forbidden(r, err)
		}
		ranges = slices.Clone(found)
	}
	slices.SortFunc(ranges, func(a, b *corev1.LimitRange) int { return strings.Compare(a.Name, b.Name) })
	return ranges, nil
}
