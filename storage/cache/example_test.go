package cache_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	"github.com/planekit/planekit/storage/memstore"
)

func Example() {
	ctx, store := context.Background(), memstore.New()
	feed, err := cache.NewFeed(cache.FeedConfig{Store: store, Prefix: "/"})
	if err != nil {
		panic(err)
	}
	fruit, err := cache.New(cache.Config[string]{
		Feed: feed, Prefix: "/fruit/",
		Decode: func(r storage.Record, _ string) (string, error) { return strings.ToUpper(string(r.Value)), nil },
	})
	if err != nil {
		panic(err)
	}
	store.Commit(ctx, storage.Change{Key: "/fruit/a", Value: []byte("apple")})
	before, _ := fruit.Current(ctx)
	watch, _ := fruit.Watch(ctx, before.Revision)
	defer watch.Close()
	store.Commit(ctx, storage.Change{Key: "/fruit/b", Value: []byte("banana")})

	now, _ := fruit.Current(ctx)
	for item := range now.All("/fruit/", "") {
		fmt.Println(item.Key, item.Object)
	}
	events, _ := watch.Next(ctx)
	fmt.Println(events[0].Type, events[0].Item.Object)
	fmt.Println(before.Len(), now.Len())
	// Output:
	// /fruit/a APPLE
	// /fruit/b BANANA
	// created BANANA
	// 1 2
}
