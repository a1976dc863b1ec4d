// Package claims holds the admission plugins of persistent volumes and their claims, as in Kubernetes:
// StorageObjectInUseProtection and DefaultStorageClass
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/).
//
//	chain := admission.Chain{Mutators: []admission.Mutator{claims.Protection{}, claims.DefaultClass{Classes: cache}}}
//
// [Protection] gives new objects the finalizer that keeps them while they are in use; a controller
// removes it. [DefaultClass] gives a new claim that says nothing about its class the newest of the
// classes that are marked as the default. Its cache may be stale: the controller that binds claims
// gives them a class that has become the default later.
package claims

import (
	"context"
	"slices"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/internal/volumeclaim"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// The names of the plugins in --enable-admission-plugins.
const (
	ProtectionName   = "StorageObjectInUseProtection"
	DefaultClassName = "DefaultStorageClass"
)

// Protection is an [admission.Mutator]. The zero value is ready to use.
type Protection struct{}

// Mutate adds the finalizer to a new claim or volume.
func (Protection) Mutate(_ context.Context, r *admission.Request) error {
	if r.Operation != admission.Create || r.Subresource != "" {
		return nil
	}
	switch o := r.Object.(type) {
	case *corev1.PersistentVolumeClaim:
		o.Finalizers = with(o.Finalizers, volumeclaim.ClaimProtection)
	case *corev1.PersistentVolume:
		o.Finalizers = with(o.Finalizers, volumeclaim.VolumeProtection)
	}
	return nil
}

func with(finalizers []string, one string) []string {
	if slices.Contains(finalizers, one) {
		return finalizers
	}
	return append(slices.Clone(finalizers), one)
}

// DefaultClass is an [admission.Mutator].
type DefaultClass struct {
	// Classes is the cache of storage classes. It must be set.
	Classes localcache.Lister[*storagev1.StorageClass]
}

// Mutate sets the class of a new claim.
func (p DefaultClass) Mutate(_ context.Context, r *admission.Request) error {
	claim, ok := r.Object.(*corev1.PersistentVolumeClaim)
	if !ok || r.Operation != admission.Create || r.Subresource != "" || volumeclaim.HasClass(claim) {
		return nil
	}
	if class := volumeclaim.DefaultClass(p.Classes.All()); class != nil {
		name := class.Name
		claim.Spec.StorageClassName = &name
	}
	return nil
}
