package main

import (
	"context"

	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ours is planekit's collector, over informers that are full.
func ours(ctx context.Context, s *stock) (func(context.Context), error) {
	var kinds []controllers.GarbageKind
	for _, of := range []struct {
		kind    schema.GroupVersionKind
		objects []*partial
	}{{podKind, s.pods}, {setKind, s.sets}} {
		copied, err := informer.For(source(of.objects))
		if err != nil {
			return nil, err
		}
		go func() { _ = copied.Run(ctx) }()
		<-copied.Synced()
		kinds = append(kinds, controllers.NewGarbageKind(of.kind, true, localcache.Cache[*partial](copied), controllers.GarbageWriter[*partial](resource{s, of.kind})))
	}
	collector, err := controllers.NewGarbage(controllers.GarbageConfig{Kinds: kinds})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { _ = collector.Run(ctx) }, nil
}

// source lists its objects, and nothing ever changes.
type source []*partial

func (s source) Sync(ctx context.Context, _ string, sink informer.Sink[*partial]) error {
	sink.Replace("1", s)
	<-ctx.Done()
	return ctx.Err()
}
