package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SliceWriter is how controllers change endpoint slices.
type SliceWriter interface {
	Creator[*discoveryv1.EndpointSlice]
	Updater[*discoveryv1.EndpointSlice]
	Deleter
}

// sliceControl makes, changes and removes the slices of one manager, and knows
// which of its writes the local copy cannot show yet. Owners go by the name of
// their service.
type sliceControl struct {
	slices    localcache.Cache[*discoveryv1.EndpointSlice]
	byService localcache.Index[string, *discoveryv1.EndpointSlice]
	writer    SliceWriter
	// manager is what the slices are labelled with, kind what they are made of.
	manager, kind string
	written       written
}

// watch enqueues, after wait, the services of the slices that are or were the
// manager's.
func (s *sliceControl) watch(l *loop, wait time.Duration) {
	watch(l, s.slices, func(old, new *discoveryv1.EndpointSlice) {
		for _, slice := range []*discoveryv1.EndpointSlice{old, new} {
			if slice != nil && slice.Labels[discoveryv1.LabelManagedBy] == s.manager {
				for _, service := range ByService(slice) {
					l.EnqueueAfter(service, wait)
				}
			}
		}
	})
}

// wait returns when the copy shows what was written for owner.
func (s *sliceControl) wait(ctx context.Context, owner string) error {
	return s.written.wait(ctx, owner, s.slices.WaitFor)
}

// of are the slices of owner that are the manager's.
func (s *sliceControl) of(owner string) (list []*discoveryv1.EndpointSlice) {
	for slice := range s.byService.Get(owner) {
		if slice.Labels[discoveryv1.LabelManagedBy] == s.manager {
			list = append(list, slice)
		}
	}
	return list
}

// sliceWrites is what to do about the slices of one owner: create have no names yet,
// update have all of the object that is there.
type sliceWrites struct{ create, update, remove []*discoveryv1.EndpointSlice }

// carryOut does what is new first, so that no endpoint is missing that is to stay.
// An owner that is going needs no more slices, and the collector is at those it has;
// nor does one in a namespace that is going.
func (s *sliceControl) carryOut(ctx context.Context, owner metav1.Object, w sliceWrites) error {
	name := key(owner)
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
			return fmt.Errorf("%w: %w", errStale, err)
		case err != nil:
			return fmt.Errorf("failed to create EndpointSlice for %s %s: %w", s.kind, owner, err)
		}
		s.written.add(owner, stored.ResourceVersion)
	}
	return nil
}

func (s *sliceControl) update(ctx context.Context, owner string, update []*discoveryv1.EndpointSlice) error {
	for _, slice := range update {
		stored, err := s.writer.Update(ctx, slice)
		switch {
		case apierrors.IsNotFound(err):
			return fmt.Errorf("%w: %w", errStale, err)
		case err != nil:
			return fmt.Errorf("failed to update %s EndpointSlice for %s %s: %w", slice.Name, s.kind, owner, err)
		}
		s.written.add(owner, stored.ResourceVersion)
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
