package storagetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/planekit/planekit/storage"
)

// valueSize is the size of a small pod, in bytes.
const valueSize = 1024

// Bench measures the stores that newStore returns, which must be empty: changes by few and by many
// clients, reads, and the delivery of changes to watches.
func Bench(b *testing.B, newStore func(b testing.TB) storage.Store) {
	for _, clients := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("create/clients=%d", clients), func(b *testing.B) {
			benchCommit(b, newStore(b), clients, false)
		})
		b.Run(fmt.Sprintf("update/clients=%d", clients), func(b *testing.B) {
			benchCommit(b, newStore(b), clients, true)
		})
	}
	b.Run("get/records=1000", func(b *testing.B) { benchGet(b, newStore(b), 1000) })
	b.Run("revision", func(b *testing.B) {
		s := newStore(b)
		b.ReportAllocs()
		for b.Loop() {
			_, err := storage.Now(b.Context(), s)
			must(b, err)
		}
	})
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("list/records=%d", n), func(b *testing.B) { benchList(b, newStore(b), n) })
	}
	for _, watchers := range []int{1, 100} {
		b.Run(fmt.Sprintf("watch/watchers=%d", watchers), func(b *testing.B) { benchWatch(b, newStore(b), watchers) })
	}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// benchCommit creates keys, or updates one key per client.
func benchCommit(b *testing.B, s storage.Store, clients int, update bool) {
	ctx := b.Context()
	value := bytes.Repeat([]byte("v"), valueSize)
	var next, failures atomic.Int64
	work := func(client int) {
		c := storage.Change{Key: storage.Key(fmt.Sprintf("/b/client/%d", client)), Value: value}
		for next.Add(1) <= int64(b.N) {
			if !update {
				c.Key = storage.Key(fmt.Sprintf("/b/%d/%d", client, next.Load()))
			}
			r, err := s.Commit(ctx, c)
			if err != nil {
				failures.Add(1)
				return
			}
			if update {
				c.Op, c.Previous = storage.Update, r.Revision
			}
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() { work(i) })
	}
	group.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "changes/s")
	if n := failures.Load(); n > 0 {
		b.Fatalf("%d clients failed", n)
	}
}

// fill creates n records.
func fill(b *testing.B, s storage.Store, n int) {
	value := bytes.Repeat([]byte("v"), valueSize)
	var group sync.WaitGroup
	const hands = 16
	for hand := range hands {
		group.Go(func() {
			for i := hand; i < n; i += hands {
				if _, err := s.Commit(b.Context(), storage.Change{Key: storage.Key(fmt.Sprintf("/b/%d", i)), Value: value}); err != nil {
					b.Errorf("create: %v", err)
				}
			}
		})
	}
	group.Wait()
}

func benchGet(b *testing.B, s storage.Store, n int) {
	fill(b, s, n)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		_, err := s.Get(b.Context(), storage.Key(fmt.Sprintf("/b/%d", i%n)), 0)
		must(b, err)
		i++
	}
}

func benchList(b *testing.B, s storage.Store, n int) {
	fill(b, s, n)
	b.ReportAllocs()
	for b.Loop() {
		page, err := s.List(b.Context(), "/b/", storage.ListOptions{})
		must(b, err)
		if len(page.Records) != n {
			b.Fatalf("%d records, want %d", len(page.Records), n)
		}
	}
}

// benchWatch changes a key and waits until every watch has delivered the change.
func benchWatch(b *testing.B, s storage.Store, watchers int) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var group sync.WaitGroup
	got := make(chan error, watchers) // room for all, so that no watcher blocks
	for range watchers {
		w, err := s.Watch(ctx, "/b/", 0)
		must(b, err)
		group.Go(func() {
			defer w.Close()
			for {
				events, err := w.Next(ctx)
				if ctx.Err() != nil {
					return
				}
				if err != nil || events[0].Type != storage.Progress {
					got <- err
				}
				if err != nil {
					return
				}
			}
		})
	}
	c := storage.Change{Key: "/b/1", Value: bytes.Repeat([]byte("v"), valueSize)}
	b.ReportAllocs()
	for b.Loop() {
		r, err := s.Commit(ctx, c)
		must(b, err)
		c.Op, c.Previous = storage.Update, r.Revision
		for range watchers {
			must(b, <-got)
		}
	}
	cancel()
	group.Wait()
}
