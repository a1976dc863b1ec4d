package main

import (
	"context"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// paint runs a controller until ctx is done: whatever color a widget is to
// have, it is painted in it.
func paint(ctx context.Context, api *client.Client) error {
	resource := client.For(api, widgets)
	copied, err := informer.For(resource)
	if err != nil {
		return err
	}
	painter, err := reconcile.New(reconcile.Config[string]{
		Name: "painter",
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			widget, ok := copied.Get(key)
			if !ok || widget.Painted == widget.Color {
				return reconcile.Result{}, nil
			}
			// The copy is shared: it is never changed.
			painted := widget.DeepCopyObject().(*Widget)
			painted.Painted = widget.Color
			_, err := resource.Update(ctx, painted)
			if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
				return reconcile.Result{Requeue: true}, nil
			}
			return reconcile.Result{}, err
		},
	})
	if err != nil {
		return err
	}
	defer copied.Subscribe(func(old, now *Widget) {
		if now != nil {
			painter.Enqueue(localcache.KeyOf(now))
		}
	}).Stop()
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return copied.Run(ctx) })
	parts.Go(func() error { return painter.Run(ctx) })
	return parts.Wait()
}
