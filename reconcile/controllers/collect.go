package controllers

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/reconcile"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (c *Garbage) reconcile(ctx context.Context, uid string) (reconcile.Result, error) {
	v, ok := c.graph.vertex(types.UID(uid))
	if !ok {
		return reconcile.Result{}, nil
	}
	var err error
	switch {
	case v.deleting(metav1.FinalizerOrphanDependents):
		err = c.orphan(ctx, v)
	case v.deleting(metav1.FinalizerDeleteDependents):
		err = c.deleteDependents(ctx, v)
	case v.object.GetDeletionTimestamp() == nil && len(v.object.GetOwnerReferences()) > 0:
		err = c.judge(ctx, v)
	}
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // its deletion is on its way to the copy
	}
	return reconcile.Result{}, err
}

// orphan takes v off everything it owns and then lets it go.
func (c *Garbage) orphan(ctx context.Context, v *vertex) error {
	uid := v.object.GetUID()
	var failures []error
	for _, dependent := range c.graph.owned(uid) {
		o := dependent.object
		err := c.patch(ctx, dependent, ownersPatch(o, withoutOwner(o.GetOwnerReferences(), uid)))
		if err != nil && !apierrors.IsNotFound(err) {
			failures = append(failures, fmt.Errorf("orphan %s: %w", key(o), err))
		}
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return c.patch(ctx, v, finalizerPatch(v.object, metav1.FinalizerOrphanDependents))
}

// deleteDependents lets v go once nothing is left that blocks it. It is
// called again whenever a dependent changes.
func (c *Garbage) deleteDependents(ctx context.Context, v *vertex) error {
	blocked := false
	for _, dependent := range c.graph.owned(v.object.GetUID()) {
		if blocks(dependent.object, v.object.GetUID()) {
			blocked = true
			c.graph.enqueue(dependent.object.GetUID())
		}
	}
	if blocked {
		return nil
	}
	return c.patch(ctx, v, finalizerPatch(v.object, metav1.FinalizerDeleteDependents))
}

func blocks(dependent metav1.Object, owner types.UID) bool {
	for _, o := range dependent.GetOwnerReferences() {
		if o.UID == owner && o.BlockOwnerDeletion != nil && *o.BlockOwnerDeletion {
			return true
		}
	}
	return false
}

// judge deletes v if all its owners are gone or wait for it to go.
func (c *Garbage) judge(ctx context.Context, v *vertex) error {
	owners := v.object.GetOwnerReferences()
	var remaining []metav1.OwnerReference
	waiting := false
	for i := range owners {
		owner, exists := c.graph.vertex(owners[i].UID)
		switch {
		case exists && owner.deleting(metav1.FinalizerDeleteDependents):
			waiting = true
		case exists:
			remaining = append(remaining, owners[i])
		default:
			absent, err := c.absent(ctx, v.object, &owners[i])
			if err != nil {
				return fmt.Errorf("owner %s %s of %s: %w", owners[i].Kind, owners[i].Name, key(v.object), err)
			}
			if !absent {
				remaining = append(remaining, owners[i])
			}
		}
	}
	switch {
	case len(remaining) == len(owners):
		return nil
	case len(remaining) > 0:
		return c.patch(ctx, v, ownersPatch(v.object, remaining))
	}
	return c.remove(ctx, v, waiting)
}

// absent asks the API about an owner that no local copy has.
func (c *Garbage) absent(ctx context.Context, dependent metav1.Object, owner *metav1.OwnerReference) (bool, error) {
	kind, ok := c.kindOf(owner)
	if !ok {
		return false, nil
	}
	namespace := ""
	if kind.Namespaced {
		namespace = dependent.GetNamespace()
		if namespace == "" {
			return false, nil // such an owner cannot exist, and so cannot have gone
		}
	}
	found, err := kind.Get(ctx, namespace, owner.Name)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, err
	}
	return found.GetUID() != owner.UID, nil
}

func (c *Garbage) remove(ctx context.Context, v *vertex, waiting bool) error {
	policy := metav1.DeletePropagationBackground
	// An owner that waits for v also waits for what v owns.
	if waiting && len(c.graph.owned(v.object.GetUID())) > 0 {
		policy = metav1.DeletePropagationForeground
	}
	for _, finalizer := range v.object.GetFinalizers() {
		switch finalizer {
		case metav1.FinalizerOrphanDependents:
			policy = metav1.DeletePropagationOrphan
		case metav1.FinalizerDeleteDependents:
			policy = metav1.DeletePropagationForeground
		}
	}
	uid, revision := v.object.GetUID(), v.object.GetResourceVersion()
	err := c.kinds[v.kind].Delete(ctx, v.object.GetNamespace(), v.object.GetName(), metav1.DeleteOptions{
		// Whoever changed it meanwhile may have given it a new owner.
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &revision},
		PropagationPolicy: &policy,
	})
	if err != nil {
		return fmt.Errorf("delete %s %s: %w", c.kinds[v.kind].GroupVersionKind.Kind, key(v.object), err)
	}
	return nil
}

func (c *Garbage) patch(ctx context.Context, v *vertex, data []byte) error {
	err := c.kinds[v.kind].Patch(ctx, v.object.GetNamespace(), v.object.GetName(), data)
	if err != nil {
		return fmt.Errorf("patch %s %s: %w", c.kinds[v.kind].GroupVersionKind.Kind, key(v.object), err)
	}
	return nil
}
