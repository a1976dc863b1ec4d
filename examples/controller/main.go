// Command controller makes the status of lamps what their spec asks for, on the cluster of
// KUBECONFIG. lamp.go is their type; nothing is generated. For a cluster that has lamps, it is also
// a control plane in memory:
//
//	go run ./examples/controller serve lamps.kubeconfig &
//	KUBECONFIG=lamps.kubeconfig go run ./examples/controller
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/reconcile"
	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	do, file := run, os.Getenv("KUBECONFIG")
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		do, file = serve, os.Args[2]
	}
	if err := do(ctx, file); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string) error {
	api, err := kubeconfig.Connect(file)
	if err != nil {
		return err
	}
	defer api.Close()
	resource := client.For(api, lampKind)
	lamps, err1 := informer.For(resource)
	c, err2 := reconcile.New(reconcile.Config[string]{Name: "lamps", Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
		lamp, ok := lamps.Get(key)
		if !ok || lamp.Status == lamp.Spec {
			return reconcile.Result{}, nil
		}
		_, err := resource.UpdateStatus(ctx, lamp.with(lamp.Spec))
		return reconcile.Result{}, err // with an error, say of a conflict, it is called again
	}})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	reconcile.Watch(c, lamps, reconcile.Itself((*Lamp).key))
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return lamps.Run(ctx) })
	parts.Go(func() error { return c.Run(ctx) })
	return parts.Wait()
}
