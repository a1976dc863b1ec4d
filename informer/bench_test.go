package informer_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/planekit/planekit/informer"
)

func objects(n int) []*object {
	list := make([]*object, n)
	for i := range list {
		list[i] = &object{key: fmt.Sprintf("namespace-%d/pod-%d", i%100, i), revision: i + 1, group: i % (n / 10)}
	}
	return list
}

// loaded returns a running informer of n objects and its sink. Each size adds an index with that
// many objects under each key.
func loaded(b *testing.B, n int, sizes ...int) (*informer.Informer[*object], []*informer.Index[int, *object], informer.Sink[*object]) {
	sinks := make(chan informer.Sink[*object], 1)
	inf := newInformer(b, sourceFunc(func(ctx context.Context, _ string, sink informer.Sink[*object]) error {
		sink.Replace(strconv.Itoa(n), objects(n))
		sinks <- sink
		<-ctx.Done()
		return ctx.Err()
	}))
	var indexes []*informer.Index[int, *object]
	for _, size := range sizes {
		indexes = append(indexes, informer.NewIndex(inf, func(o *object) []int { return []int{o.group % (n / size)} }))
	}
	b.Cleanup(start(b, inf))
	return inf, indexes, <-sinks
}

func BenchmarkEvents(b *testing.B) {
	for _, handlers := range []int{1, 10} {
		b.Run(fmt.Sprintf("handlers=%d", handlers), func(b *testing.B) {
			inf, _, sink := loaded(b, 1000)
			var all sync.WaitGroup
			list := objects(1000)
			for range handlers {
				want := 0
				inf.Subscribe(func(_, new *object) {
					if new.key == "end" {
						all.Done()
					}
					want++
				})
			}
			all.Add(handlers)
			b.ReportAllocs()
			revision := 1000
			for b.Loop() {
				revision++
				o := *list[revision%1000]
				o.revision = revision
				sink.Put(strconv.Itoa(revision), &o)
			}
			revision++
			sink.Put(strconv.Itoa(revision), &object{key: "end", revision: revision})
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkGet(b *testing.B) {
	inf, _, _ := loaded(b, 100_000)
	key := objects(100_000)[77_777].key
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := inf.Get(key); !ok {
			b.Fatal("not found")
		}
	}
}

func BenchmarkIndexGet(b *testing.B) {
	sizes := []int{10, 1000}
	_, indexes, _ := loaded(b, 100_000, sizes...)
	for i, size := range sizes {
		b.Run(fmt.Sprintf("objects=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for range indexes[i].Get(77) {
					n++
				}
				if n != size {
					b.Fatal(n)
				}
			}
		})
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, sizes := range [][]int{nil, {10, 10}} {
		b.Run(fmt.Sprintf("objects=100000/indexes=%d", len(sizes)), func(b *testing.B) {
			_, _, sink := loaded(b, 100_000, sizes...)
			list := objects(100_000)
			revision := 100_000
			b.ReportAllocs()
			for b.Loop() {
				revision++
				o := *list[revision%100_000]
				o.revision = revision
				sink.Put(strconv.Itoa(revision), &o)
			}
		})
	}
}

func BenchmarkInitialSync(b *testing.B) {
	list := objects(100_000)
	for _, indexes := range []int{0, 1} {
		b.Run(fmt.Sprintf("objects=100000/indexes=%d", indexes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				inf := newInformer(b, sourceFunc(func(ctx context.Context, _ string, sink informer.Sink[*object]) error {
					sink.Replace("100000", list)
					<-ctx.Done()
					return ctx.Err()
				}))
				if indexes == 1 {
					informer.NewIndex(inf, func(o *object) []int { return []int{o.group} })
				}
				stop := start(b, inf)
				<-inf.Synced()
				stop()
			}
		})
	}
}

func BenchmarkRelist(b *testing.B) {
	_, _, sink := loaded(b, 100_000)
	list := objects(100_000)
	revision := 100_000
	b.ReportAllocs()
	for b.Loop() {
		revision++
		sink.Replace(strconv.Itoa(revision), list)
	}
}

// BenchmarkLatency measures the time from a Put, with no other work, until a handler has received
// it.
func BenchmarkLatency(b *testing.B) {
	inf, _, sink := loaded(b, 100_000, 10)
	done := make(chan struct{})
	<-inf.Subscribe(func(old, _ *object) {
		if old != nil {
			done <- struct{}{}
		}
	}).CaughtUp
	list := objects(100_000)
	revision := 100_000
	for b.Loop() {
		revision++
		o := *list[revision%100_000]
		o.revision = revision
		sink.Put(strconv.Itoa(revision), &o)
		<-done
	}
}
