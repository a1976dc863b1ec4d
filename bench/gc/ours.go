package main

import (
	"context"

	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers/garbage"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ours returns planekit's collector over synced informers.
func ours(ctx context.Context, s *stock) (func(context.Context), error) {
	var kinds []garbage.Kind
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
		kinds = append(kinds, garbage.NewKind(of.kind, true, localcache.Cache[*partial](copied), garbage.Writer[*partial](resource{s, of.kind})))
	}
	collector, err := garbage.New(garbage.Config{Kinds: kinds})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { _ = collector.Run(ctx) }, nil
}

// source lists its objects, which never change.
type source []*partial

func (s source) Sync(ctx context.Context, _ string, sink informer.Sink[*partial]) error {
	sink.Replace("1", s)
	<-ctx.Done()
	return ctx.Err()
}
