package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func isKind(owner *metav1.OwnerReference, group, kind string) bool {
	refGroup, _, found := strings.Cut(owner.APIVersion, "/")
	if !found {
		refGroup = ""
	}
	return owner.Kind == kind && refGroup == group
}

// metadataPatch is a JSON merge patch of metadata. The resource version makes
// the patch fail when the object is not the one that was looked at.
type metadataPatch struct {
	Metadata struct {
		UID             types.UID                `json:"uid"`
		ResourceVersion string                   `json:"resourceVersion"`
		OwnerReferences *[]metav1.OwnerReference `json:"ownerReferences,omitempty"`
		Finalizers      *[]string                `json:"finalizers,omitempty"`
	} `json:"metadata"`
}

func newMetadataPatch(object metav1.Object) (p metadataPatch) {
	p.Metadata.UID, p.Metadata.ResourceVersion = object.GetUID(), object.GetResourceVersion()
	return p
}

func (p metadataPatch) bytes() []byte {
	data, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("controllers: metadata patch: %v", err)) // strings and booleans only
	}
	return data
}

// ownersPatch replaces the owner references of object.
func ownersPatch(object metav1.Object, owners []metav1.OwnerReference) []byte {
	p := newMetadataPatch(object)
	if owners == nil {
		owners = []metav1.OwnerReference{}
	}
	p.Metadata.OwnerReferences = &owners
	return p.bytes()
}

// finalizerPatch takes one finalizer off object.
func finalizerPatch(object metav1.Object, finalizer string) []byte {
	p := newMetadataPatch(object)
	left := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return f == finalizer })
	if left == nil {
		left = []string{}
	}
	p.Metadata.Finalizers = &left
	return p.bytes()
}

func withoutOwner(owners []metav1.OwnerReference, uid types.UID) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(owners), func(o metav1.OwnerReference) bool { return o.UID == uid })
}

// claims sorts out which objects belong to a controller.
type claims[T metav1.Object] struct {
	// mine match the selector and are owned already.
	mine []T
	// adopt match and have no controller; release are owned and do not match.
	adopt, release []T
}

// planClaims decides from the objects that owner controls and the orphans of
// its namespace. An owner that is being deleted adopts and releases nothing. What
// is being deleted is released as well: it may be waiting for that.
func planClaims[T metav1.Object](owner metav1.Object, selector labels.Selector, owned, orphans []T) claims[T] {
	var c claims[T]
	for _, object := range owned {
		if selector.Matches(labels.Set(object.GetLabels())) {
			c.mine = append(c.mine, object)
		} else if owner.GetDeletionTimestamp() == nil {
			c.release = append(c.release, object)
		}
	}
	if owner.GetDeletionTimestamp() != nil {
		return c
	}
	for _, object := range orphans {
		if object.GetDeletionTimestamp() == nil && selector.Matches(labels.Set(object.GetLabels())) {
			c.adopt = append(c.adopt, object)
		}
	}
	return c
}

// claim carries out c and reports whether anything had to be done. Before it
// adopts it calls confirm, which fails if the owner is not what the local copy
// says: an object that was orphaned on purpose, by the deletion of its owner,
// must not be given back to it. One object that cannot be had keeps no other
// from being claimed.
func claim[T metav1.Object](ctx context.Context, c claims[T], owner metav1.Object, kind schema.GroupVersionKind,
	patcher Patcher[T], confirm func(context.Context) error, wrote func(revision string)) (bool, error) {
	var failures []error
	patch := func(verb string, object T, owners []metav1.OwnerReference) {
		changed, err := patcher.Patch(ctx, object.GetNamespace(), object.GetName(), types.MergePatchType, ownersPatch(object, owners))
		switch {
		case err == nil:
			wrote(changed.GetResourceVersion())
		case apierrors.IsNotFound(err):
			failures = append(failures, errStale) // gone, and about to go from the copy
		default:
			failures = append(failures, fmt.Errorf("%s %s: %w", verb, key(object), err))
		}
	}
	for _, object := range c.release {
		patch("release", object, withoutOwner(object.GetOwnerReferences(), owner.GetUID()))
	}
	if len(c.adopt) > 0 {
		if err := confirm(ctx); err != nil {
			return true, joinReal(append(failures, err))
		}
	}
	for _, object := range c.adopt {
		patch("adopt", object, append(slices.Clone(object.GetOwnerReferences()), *metav1.NewControllerRef(owner, kind)))
	}
	return len(c.release)+len(c.adopt) > 0, joinReal(failures)
}
