package reconcile_test

import (
	"context"
	"fmt"
	"strconv"

	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/reconcile"
)

// bulb is an object with a desired and an actual color.
type bulb struct {
	name, wanted, is string
	revision         int
}

func (b *bulb) key() string { return b.name }

// shop stores bulbs. Its Sync reports one bulb and then every write. It stands for a
// client.Resource of package client.
type shop chan *bulb

func (s shop) Sync(ctx context.Context, _ string, sink informer.Sink[*bulb]) error {
	sink.Replace("1", []*bulb{{"hall", "green", "", 1}})
	for {
		select {
		case b := <-s:
			sink.Put(strconv.Itoa(b.revision), b)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// The controller of a custom type gives each bulb its desired color.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	written := make(shop)
	bulbs, err1 := informer.New(informer.Config[*bulb]{Source: written, Key: (*bulb).key, Revision: func(b *bulb) string { return strconv.Itoa(b.revision) }})
	c, err2 := reconcile.New(reconcile.Config[string]{Name: "bulbs", Reconcile: func(_ context.Context, key string) (reconcile.Result, error) {
		if b, ok := bulbs.Get(key); ok && b.is != b.wanted {
			written <- &bulb{b.name, b.wanted, b.wanted, b.revision + 1}
			return reconcile.Result{}, nil // the change causes another call
		}
		fmt.Println(key, "is as it should be")
		cancel()
		return reconcile.Result{}, nil
	}})
	reconcile.Watch(c, bulbs, reconcile.Itself((*bulb).key))
	ended := make(chan error)
	go func() { ended <- bulbs.Run(ctx) }()
	fmt.Println(err1, err2, c.Run(ctx), <-ended)
	// Output:
	// hall is as it should be
	// <nil> <nil> <nil> <nil>
}
