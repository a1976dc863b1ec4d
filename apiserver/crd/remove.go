package crd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/planekit/planekit/kinds/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The waits between two looks at the objects that are left.
const firstLook, lastLook = 5 * time.Millisecond, 2 * time.Second

// remove deletes the objects of a definition and then lets the definition go. The server refuses creates by
// now; drained waits for those that began before.
func (d *Definitions) remove(ctx context.Context, one *definition, drained func(context.Context) error) {
	status, reason, message := metav1.ConditionFalse, "InstanceDeletionCompleted", "removed all instances"
	defer func() {
		select {
		case d.finished <- one.UID:
		case <-ctx.Done():
		}
	}()
	if !isTrue(one, apiextensions.Established) {
		reason, message = "NeverEstablished", "resource was never established"
	} else {
		if c := conditionOf(one, apiextensions.Terminating); c == nil || c.Reason != "InstanceDeletionInProgress" {
			next := one.DeepCopy()
			setCondition(next, apiextensions.Terminating, metav1.ConditionTrue, "InstanceDeletionInProgress", "CustomResource deletion is in progress")
			written, err := d.api.updateStatus(ctx, next)
			if err != nil {
				d.complain(ctx, err, one)
				return
			}
			one = written
		}
		if err := d.removeObjects(ctx, one, drained); err != nil {
			d.complain(ctx, err, one)
			status, reason, message = metav1.ConditionTrue, "InstanceDeletionFailed", fmt.Sprintf("could not issue all deletes: %v", err)
		}
	}
	if ctx.Err() != nil {
		return
	}
	setCondition(one, apiextensions.Terminating, status, reason, message)
	if status == metav1.ConditionFalse {
		one.Finalizers = slices.DeleteFunc(one.Finalizers, func(f string) bool { return f == apiextensions.Finalizer })
	}
	if _, err := d.api.updateStatus(ctx, one); err != nil {
		d.complain(ctx, err, one)
	}
}

func (d *Definitions) complain(ctx context.Context, err error, one *definition) {
	if ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		d.config.Log.Error(err, "definition cannot be removed; trying again", "definition", one.Name)
	}
}

// removeObjects deletes all objects and waits until none is left.
func (d *Definitions) removeObjects(ctx context.Context, one *definition, drained func(context.Context) error) error {
	if drained != nil {
		if err := drained(ctx); err != nil {
			return err
		}
	}
	path := objectsPath(one)
	for wait := firstLook; ; wait = min(2*wait, lastLook) {
		places, err := d.api.places(ctx, path, one.Spec.Scope == apiextensions.NamespaceScoped)
		if err != nil || len(places) == 0 {
			return err
		}
		for _, place := range places {
			if err := d.api.deleteAll(ctx, place); err != nil {
				return err
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// objectsPath returns the path of all objects, in a version that is served: the storage version if it is, so that no
// webhook need convert the objects.
func objectsPath(one *definition) collection {
	version, stored := "", false
	for _, v := range one.Spec.Versions {
		if v.Storage && (v.Served || version == "" || converts(one)) || v.Served && !stored {
			version, stored = v.Name, v.Storage
		}
	}
	return collection{group: one.Spec.Group, version: version, plural: one.Status.AcceptedNames.Plural}
}
