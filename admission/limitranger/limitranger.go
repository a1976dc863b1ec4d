// Package limitranger applies the default resources of a namespace to containers and enforces its
// limits for pods and claims: the LimitRanger plugin of Kubernetes
// (https://kubernetes.io/docs/concepts/policy/limit-range/).
//
//	limits, err := limitranger.New(limitranger.Config{ByNamespace: index, Lookup: list})
//	chain := admission.Chain{
//		Mutators:   []admission.Mutator{limits},
//		Validators: []admission.Validator{limits},
//	}
//
// The containers and init containers of a new pod get default requests and limits where they have
// none, and the pod gets the annotation [Annotation] that lists them. A new or resized pod and a
// new or changed claim must respect all limit ranges of the namespace. Otherwise the request is
// refused with 403 and all violations. Ephemeral containers have no resources.
//
// The cache may be stale. If it has no limit range of a namespace, the limit ranges are read from
// the store, at most once in half a minute. So the first limit range of a namespace applies at
// once, and a changed one when the cache has received it. If a lookup fails, the request is
// refused.
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

// Annotation lists the defaults that this plugin has applied to a pod.
const Annotation = "kubernetes.io/limit-ranger"

// remembered is how long a lookup is cached, as in Kubernetes.
const remembered = 30 * time.Second

// Config configures the plugin. Both fields are required.
type Config struct {
	// ByNamespace is an index of limit ranges by namespace.
	ByNamespace localcache.Index[string, *corev1.LimitRange]
	// Lookup reads the limit ranges of a namespace from the store.
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

// Mutate applies the defaults to the containers of a pod.
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

// Validate refuses a request that violates a limit.
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

// concerns reports whether r sets resources: an update of a pod cannot change them, except through
// the subresource "resize".
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

// ranges returns the limit ranges of the request's namespace, by name.
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
