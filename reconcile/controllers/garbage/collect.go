package garbage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func (c *Collector) reconcile(ctx context.Context, uid string) (reconcile.Result, error) {
	v, ok := c.graph.object(types.UID(uid))
	if !ok {
		return reconcile.Result{}, nil
	}
	var result reconcile.Result
	var err error
	switch {
	case v.deleting(metav1.FinalizerOrphanDependents):
		err = c.orphan(ctx, v)
	case v.deleting(metav1.FinalizerDeleteDependents):
		err = c.deleteDependents(ctx, v)
	case v.object.GetDeletionTimestamp() == nil && len(v.object.GetOwnerReferences()) > 0:
		result.Requeue, err = c.judge(ctx, v)
	}
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // its deletion is on its way to the copy
	}
	return result, err
}

// orphan removes the owner references to v from all its dependents and then the finalizer from v.
func (c *Collector) orphan(ctx context.Context, v node) error {
	uid := v.object.GetUID()
	var failures []error
	for _, dependent := range c.graph.owned(uid) {
		o := dependent.object
		err := c.patch(ctx, dependent, owner.ReferencesPatch(o, owner.Without(o.GetOwnerReferences(), uid)))
		if err != nil && !apierrors.IsNotFound(err) {
			failures = append(failures, fmt.Errorf("orphan %s: %w", localcache.KeyOf(o), err))
		}
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return c.patch(ctx, v, owner.FinalizerPatch(v.object, metav1.FinalizerOrphanDependents))
}

// deleteDependents removes the finalizer of v when no dependent blocks it. It is called again
// whenever a dependent changes.
func (c *Collector) deleteDependents(ctx context.Context, v node) error {
	blocked := slices.ContainsFunc(c.graph.owned(v.object.GetUID()), func(dependent node) bool {
		return blocks(dependent.object, v.object.GetUID())
	})
	if blocked {
		_, err := c.breakCircle(ctx, v)
		return err
	}
	return c.patch(ctx, v, owner.FinalizerPatch(v.object, metav1.FinalizerDeleteDependents))
}

func blocks(dependent metav1.Object, owner types.UID) bool {
	for _, o := range dependent.GetOwnerReferences() {
		if o.UID == owner && o.BlockOwnerDeletion != nil && *o.BlockOwnerDeletion {
			return true
		}
	}
	return false
}

// ownerState is the state of an owner, as seen by a dependent.
type ownerState int

const (
	solid   ownerState = iota // it exists, or its state is unknown
	unseen                    // it is there, and no local copy has it
	waiting                   // it is there until the dependent has gone
	gone
)

// judge deletes v if all its owners are deleted or wait for v to be deleted. It reports whether v
// must be judged again: an owner that exists and is in no cache may be deleted without any cache
// reporting it.
func (c *Collector) judge(ctx context.Context, v node) (again bool, err error) {
	owners := v.object.GetOwnerReferences()
	var remaining []metav1.OwnerReference
	awaited := false
	for i := range owners {
		switch s, err := c.stateOf(ctx, v, &owners[i]); {
		case err != nil:
			return false, fmt.Errorf("owner %s %s of %s: %w", owners[i].Kind, owners[i].Name, localcache.KeyOf(v.object), err)
		case s == solid, s == unseen:
			again = again || s == unseen
			remaining = append(remaining, owners[i])
		case s == waiting:
			awaited = true
		}
	}
	switch {
	case len(remaining) == len(owners):
		return again, nil
	case len(remaining) > 0:
		return again, c.patch(ctx, v, owner.ReferencesPatch(v.object, remaining))
	}
	return false, c.remove(ctx, v, awaited)
}

func (c *Collector) stateOf(ctx context.Context, v node, owner *metav1.OwnerReference) (ownerState, error) {
	seen, ok := c.graph.object(owner.UID)
	if ok && c.isAt(v, owner, seen) {
		if seen.deleting(metav1.FinalizerDeleteDependents) {
			return waiting, nil
		}
		return solid, nil
	}
	if ok && c.elsewhere(v, seen) && c.told.add([2]types.UID{v.object.GetUID(), owner.UID}) {
		kind, _ := c.describe(v)
		c.events.Event(eventTarget(kind, v.object), corev1.EventTypeWarning, "OwnerRefInvalidNamespace",
			fmt.Sprintf("ownerRef %s does not exist in namespace %q", ownerText(v.object, owner), v.object.GetNamespace()))
	}
	return c.ask(ctx, v.object, owner)
}

// isAt reports whether seen has the coordinates that v's reference to owner implies.
func (c *Collector) isAt(v node, ref *metav1.OwnerReference, seen node) bool {
	kind, _ := c.describe(seen)
	return owner.IsKind(ref, kind.Group, kind.Kind) && seen.object.GetName() == ref.Name && !c.elsewhere(v, seen)
}

// elsewhere reports whether seen is in another namespace than v.
func (c *Collector) elsewhere(v, seen node) bool {
	_, namespaced := c.describe(seen)
	return namespaced && seen.object.GetNamespace() != v.object.GetNamespace()
}

// ownerPlace is where a dependent says that an owner is. If no owner is there, the object with that
// UID may still exist: another dependent may refer to it correctly.
type ownerPlace struct {
	group, kind, namespace, name string
	uid                          types.UID
}

// ask looks for an owner in the cache, which may have an object that it has not reported yet. It
// asks the API about an owner that is not there, once for all its dependents.
func (c *Collector) ask(ctx context.Context, dependent metav1.Object, owner *metav1.OwnerReference) (ownerState, error) {
	kind, ok := c.kindOf(owner)
	if !ok {
		return c.withoutKind(dependent, owner), nil
	}
	namespace := ""
	if kind.Namespaced {
		namespace = dependent.GetNamespace()
		if namespace == "" {
			return solid, nil // such an owner cannot exist, and so cannot have gone
		}
	}
	place := ownerPlace{kind.GroupVersionKind.Group, owner.Kind, namespace, owner.Name, owner.UID}
	if c.gone.has(place) {
		return gone, nil
	}
	if found, ok := kind.Cached(namespace, owner.Name); ok && found.GetUID() == owner.UID {
		return solid, nil
	}
	found, err := kind.Get(ctx, namespace, owner.Name)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return solid, err
	case err == nil && found.GetUID() == owner.UID:
		return unseen, nil
	}
	c.gone.add(place)
	return gone, nil
}

// withoutKind returns the state of an owner of a kind that there is not. Its object may have been seen to go before
// the kind did; and the kind may yet come.
func (c *Collector) withoutKind(dependent metav1.Object, owner *metav1.OwnerReference) ownerState {
	if c.custom == nil {
		return solid
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return solid
	}
	for _, namespace := range []string{"", dependent.GetNamespace()} {
		if c.gone.has(ownerPlace{version.Group, owner.Kind, namespace, owner.Name, owner.UID}) {
			return gone
		}
	}
	return unseen
}

func (c *Collector) remove(ctx context.Context, v node, awaited bool) error {
	policy := metav1.DeletePropagationBackground
	switch finalizers := v.object.GetFinalizers(); {
	case awaited && len(c.graph.owned(v.object.GetUID())) > 0:
		// An owner that waits for v also waits for what v owns.
		policy = metav1.DeletePropagationForeground
		if broke, err := c.breakCircle(ctx, v); broke || err != nil {
			return err // the change brings v back
		}
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	}
	uid, revision := v.object.GetUID(), v.object.GetResourceVersion()
	kind, err := c.writer(v)
	if err != nil {
		return err
	}
	err = kind.Delete(ctx, v.object.GetNamespace(), v.object.GetName(), metav1.DeleteOptions{
		// A client that changed it meanwhile may have given it a new owner.
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &revision},
		PropagationPolicy: &policy,
	})
	if err != nil {
		return fmt.Errorf("delete %s %s: %w", kind.GroupVersionKind.Kind, localcache.KeyOf(v.object), err)
	}
	return nil
}

// breakCircle keeps v from blocking its owners if they wait, through what v owns, for v: each would
// wait for the other forever. It reports whether there was such a circle.
func (c *Collector) breakCircle(ctx context.Context, v node) (bool, error) {
	if !c.graph.inCircle(v.object.GetUID()) {
		return false, nil
	}
	owners := slices.Clone(v.object.GetOwnerReferences())
	blocked := false
	for i := range owners {
		if block := owners[i].BlockOwnerDeletion; block != nil && *block {
			owners[i].BlockOwnerDeletion, blocked = new(bool), true
		}
	}
	if !blocked {
		return false, nil
	}
	return true, c.patch(ctx, v, owner.ReferencesPatch(v.object, owners))
}

func (c *Collector) patch(ctx context.Context, v node, data []byte) error {
	kind, err := c.writer(v)
	if err != nil {
		return err
	}
	err = kind.Patch(ctx, v.object.GetNamespace(), v.object.GetName(), data)
	if err != nil {
		return fmt.Errorf("patch %s %s: %w", kind.GroupVersionKind.Kind, localcache.KeyOf(v.object), err)
	}
	return nil
}
