package endpoints

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SliceWriter creates, changes and deletes EndpointSlices.
type SliceWriter interface {
	controllers.Creator[*discoveryv1.EndpointSlice]
	controllers.Updater[*discoveryv1.EndpointSlice]
	controllers.Deleter
}

// sliceControl creates, changes and deletes the slices of one manager, and records the writes that
// the cache does not show yet. The key of an owner is that of its service.
type sliceControl struct {
	slices    localcache.Cache[*discoveryv1.EndpointSlice]
	byService localcache.Index[string, *discoveryv1.EndpointSlice]
	writer    SliceWriter
	// manager is the label of the slices, kind the kind of their source.
	manager, kind string
	ledger        owner.Ledger
}

// watch enqueues, after wait, the services of the slices that are or were the manager's.
func (s *sliceControl) watch(c *reconcile.Controller[string], wait time.Duration) {
	reconcile.WatchFunc(c, s.slices, func(old, new *discoveryv1.EndpointSlice) {
		for _, slice := range []*discoveryv1.EndpointSlice{old, new} {
			if slice != nil && slice.Labels[discoveryv1.LabelManagedBy] == s.manager {
				for _, service := range ByService(slice) {
					c.EnqueueAfter(service, wait)
				}
			}
		}
	})
}

// wait returns when the cache shows what was written for owner.
func (s *sliceControl) wait(ctx context.Context, owner string) error {
	return s.ledger.Wait(ctx, owner)
}

// of returns the slices of owner that are the manager's.
func (s *sliceControl) of(owner string) (list []*discoveryv1.EndpointSlice) {
	for slice := range s.byService.Get(owner) {
		if slice.Labels[discoveryv1.LabelManagedBy] == s.manager {
			list = append(list, slice)
		}
	}
	return list
}

// sliceWrites is the plan for the slices of one owner. Those in create have no names yet; those in
// update are complete objects.
type sliceWrites struct{ create, update, remove []*discoveryv1.EndpointSlice }

// carryOut creates first, so that no endpoint is missing that stays. An owner that is being deleted
// needs no more slices, and the garbage collector deletes those it has. The same holds for an owner
// in a namespace that is being deleted.
func (s *sliceControl) carryOut(ctx context.Context, owner metav1.Object, w sliceWrites) error {
	name := localcache.KeyOf(owner)
	if owner.GetDeletionTimestamp() == nil {
		err := s.create(ctx, name, owner.GetUID(), w.create)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	if err := s.update(ctx, name, w.update); err != nil {
		return err
	}
	return s.remove(ctx, name, w.remove)
}

// create names slices by the UID of owner and creates them.
func (s *sliceControl) create(ctx context.Context, owner string, uid types.UID, create []*discoveryv1.EndpointSlice) error {
	namespace, _, _ := strings.Cut(owner, "/")
	nameSlices(uid, create, func(name string) bool {
		_, taken := s.slices.Get(localcache.Key(namespace, name))
		return taken
	})
	for _, slice := range create {
		stored, err := s.writer.Create(ctx, slice)
		switch {
		case apierrors.IsAlreadyExists(err): // made here, and the answer was lost
			return fmt.Errorf("%w: %w", loop.ErrStale, err)
		case err != nil:
			return fmt.Errorf("failed to create EndpointSlice for %s %s: %w", s.kind, owner, err)
		}
		s.ledger.Add(owner, s.slices, stored.ResourceVersion)
	}
	return nil
}

func (s *sliceControl) update(ctx context.Context, owner string, update []*discoveryv1.EndpointSlice) error {
	for _, slice := range update {
		stored, err := s.writer.Update(ctx, slice)
		switch {
		case apierrors.IsNotFound(err):
			return fmt.Errorf("%w: %w", loop.ErrStale, err)
		case err != nil:
			return fmt.Errorf("failed to update %s EndpointSlice for %s %s: %w", slice.Name, s.kind, owner, err)
		}
		s.ledger.Add(owner, s.slices, stored.ResourceVersion)
	}
	return nil
}

func (s *sliceControl) remove(ctx context.Context, owner string, remove []*discoveryv1.EndpointSlice) error {
	for _, slice := range remove {
		err := s.writer.Delete(ctx, slice.Namespace, slice.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &slice.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("failed to delete %s EndpointSlice for %s %s: %w", slice.Name, s.kind, owner, err)
		}
	}
	return nil
}
