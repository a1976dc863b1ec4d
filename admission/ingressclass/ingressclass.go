// Package ingressclass holds the admission plugin DefaultIngressClass, as in Kubernetes
// (https://kubernetes.io/docs/concepts/services-networking/ingress/#default-ingress-class).
//
//	chain := admission.Chain{Mutators: []admission.Mutator{ingressclass.Default{Classes: cache}}}
//
// A new ingress that names no class gets the newest of the classes that are marked as the default. The
// cache may be stale: an ingress that is created right after its class may get none.
package ingressclass

import (
	"context"
	"fmt"
	"iter"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/localcache"
	networkingv1 "k8s.io/api/networking/v1"
)

// DefaultName is the name of the plugin in --enable-admission-plugins.
const DefaultName = "DefaultIngressClass"

// annotation named the class before the field ingressClassName existed.
const annotation = "kubernetes.io/ingress.class"

// Default is an [admission.Mutator].
type Default struct {
	// Classes is the cache of ingress classes. It must be set.
	Classes localcache.Lister[*networkingv1.IngressClass]
}

// Mutate sets the class of a new ingress. It warns about the annotation that names a class, which is
// deprecated.
func (p Default) Mutate(_ context.Context, r *admission.Request) error {
	ingress, ok := r.Object.(*networkingv1.Ingress)
	if !ok || r.Operation != admission.Create || r.Subresource != "" || ingress.Spec.IngressClassName != nil {
		return nil
	}
	if _, ok := ingress.Annotations[annotation]; ok {
		if r.Warn != nil {
			r.Warn(fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", annotation))
		}
		return nil
	}
	if class := newestDefault(p.Classes.All()); class != nil {
		name := class.Name
		ingress.Spec.IngressClassName = &name
	}
	return nil
}

// newestDefault returns the newest of the classes that are marked as the default, of several the first
// by name, or nil.
func newestDefault(classes iter.Seq[*networkingv1.IngressClass]) *networkingv1.IngressClass {
	var best *networkingv1.IngressClass
	for c := range classes {
		if c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != "true" {
			continue
		}
		if best == nil || best.CreationTimestamp.Before(&c.CreationTimestamp) ||
			best.CreationTimestamp.Equal(&c.CreationTimestamp) && c.Name < best.Name {
			best = c
		}
	}
	return best
}
