package main

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// These are the delays of Kubernetes controllers.
const (
	retryMin = 5 * time.Millisecond
	retryMax = 1000 * time.Second
)

// figure is one measurement: a value in the row's unit, and the allocations for each operation if
// the row counts them.
type figure struct{ value, allocations float64 }

// row is one line of the table.
type row struct {
	name, unit string
	// bar compares planekit's figure with that of the first other side; nil means no bar.
	bar     func(ours, clientGo figure) (string, bool)
	measure func(open func() queue, n int) figure
	// scale divides the number of operations of a slow row.
	scale int
	// metrics makes all sides report to Prometheus.
	metrics bool
	// count includes allocations in the table.
	count bool
}

// keys returns names of objects in ten namespaces.
func keys(n int) []string {
	made := make([]string, n)
	for i := range made {
		made[i] = fmt.Sprintf("namespace-%d/deployment-%07d", i%10, i)
	}
	return made
}

func rows() []row {
	return []row{
		{name: "add, get, done: 1 worker", unit: "ns", measure: cycles(1), count: true, bar: noSlower},
		{name: "add, get, done: 8 workers", unit: "ns", measure: cycles(8), bar: noSlower},
		{name: "the same with metrics: 1 worker", unit: "ns", measure: cycles(1), metrics: true, count: true},
		{name: "the same with metrics: 8 workers", unit: "ns", measure: cycles(8), metrics: true},
		{name: "add among 8 workers: p50", unit: "ns", measure: addsAmong(8, 50)},
		{name: "add among 8 workers: p99", unit: "ns", measure: addsAmong(8, 99)},
		{name: "1 adds, 8 get and do", unit: "ns", measure: pipeline(1, 8)},
		{name: "8 add, 8 get and do", unit: "ns", measure: pipeline(8, 8)},
		{name: "add of what waits already", unit: "ns", measure: merged, count: true},
		{name: "retry, one key in 1024", unit: "ns", measure: retries, count: true},
		{name: "add to a million: p50", unit: "ns", measure: million(50), scale: 10},
		{name: "add to a million: p99", unit: "ns", measure: million(99), scale: 10, bar: underFive},
		{name: "a million queued: heap a key", unit: "B", measure: heapQueued, scale: 10},
		{name: "a million done: heap left", unit: "kB", measure: heapLeft, scale: 10},
	}
}

func noSlower(ours, clientGo figure) (string, bool) {
	return "no slower than client-go", ours.value <= clientGo.value
}

func underFive(ours, _ figure) (string, bool) { return "under 5000 ns", ours.value < 5000 }

// cycles makes each of workers add a key, get one and do it. One worker uses its keys repeatedly.
// Several use each key once: if one of them is stopped in the middle, a key's second add could
// merge with the first, and a worker would wait for a key that never comes.
func cycles(workers int) func(func() queue, int) figure {
	return func(open func() queue, n int) figure {
		q := open()
		defer q.stop()
		each := n / workers
		names := keys(1024)
		if workers > 1 {
			names = keys(workers * each)
		}
		run := func(n int) {
			var all sync.WaitGroup
			for w := range workers {
				mine := names[w*len(names)/workers : (w+1)*len(names)/workers]
				all.Go(func() {
					for left := n; left > 0; left -= len(mine) {
						q.cycle(mine[:min(left, len(mine))])
					}
				})
			}
			all.Wait()
		}
		run(min(each, 4096)) // until its memory is allocated
		return timed(workers*each, func() { run(each) })
	}
}

// addsAmong measures an add among workers that only add, get and do keys.
func addsAmong(workers, percentile int) func(func() queue, int) figure {
	return func(open func() queue, n int) figure {
		q := open()
		defer q.stop()
		each := n / workers
		names, took := keys(workers*each), make([]time.Duration, workers*each)
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				for i := w * each; i < (w+1)*each; i++ {
					start := time.Now()
					q.add(names[i])
					took[i] = time.Since(start)
					key, _ := q.get()
					q.done(key)
				}
			})
		}
		all.Wait()
		slices.Sort(took)
		return figure{value: float64(took[len(took)*percentile/100])}
	}
}

// pipeline has separate adders and workers; no two adds are merged.
func pipeline(adders, workers int) func(func() queue, int) figure {
	return func(open func() queue, n int) figure {
		q := open()
		names := keys(n)
		var doing, adding, left sync.WaitGroup
		left.Add(n)
		for range workers {
			doing.Go(func() {
				for {
					key, ok := q.get()
					if !ok {
						return
					}
					q.done(key)
					left.Done()
				}
			})
		}
		f := timed(n, func() {
			for a := range adders {
				adding.Go(func() {
					for i := a; i < n; i += adders {
						q.add(names[i])
					}
				})
			}
			adding.Wait()
			left.Wait()
		})
		q.stop()
		doing.Wait()
		return f
	}
}

func merged(open func() queue, n int) figure {
	q := open()
	defer q.stop()
	names := keys(1024)
	for _, key := range names {
		q.add(key)
	}
	q.len() // the adds have arrived
	return timed(n, func() {
		for i := range n {
			q.add(names[i&1023])
		}
		q.len()
	})
}

// retries fails keys whose delay ends after the measurement.
func retries(open func() queue, n int) figure {
	q := open()
	defer q.stop()
	names := keys(1024)
	for range 20 { // up to the longest delay
		for _, key := range names {
			q.retry(key)
		}
	}
	f := timed(n, func() {
		for i := range n {
			q.retry(names[i&1023])
		}
		q.len()
	})
	for _, key := range names {
		q.forget(key)
	}
	return f
}

// million adds to a million keys and measures each add.
func million(percentile int) func(func() queue, int) figure {
	return func(open func() queue, n int) figure {
		q := open()
		defer q.stop()
		names := keys(1_000_000 + n)
		for _, key := range names[:1_000_000] {
			q.add(key)
		}
		q.len()
		runtime.GC()
		took := make([]time.Duration, n)
		for i, key := range names[1_000_000:] {
			start := time.Now()
			q.add(key)
			took[i] = time.Since(start)
		}
		slices.Sort(took)
		return figure{value: float64(took[n*percentile/100])}
	}
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func heapQueued(open func() queue, _ int) figure {
	const n = 1_000_000
	names := keys(n)
	q := open()
	defer q.stop()
	before := heap()
	for _, key := range names {
		q.add(key)
	}
	q.len()
	f := figure{value: (heap() - before) / n}
	runtime.KeepAlive(names)
	return f
}

func heapLeft(open func() queue, _ int) figure {
	const n = 1_000_000
	names := keys(n)
	q := open()
	defer q.stop()
	before := heap()
	for _, key := range names {
		q.add(key)
	}
	for range names {
		key, _ := q.get()
		q.done(key)
	}
	f := figure{value: max(0, (heap()-before)/1000)}
	runtime.KeepAlive(names)
	runtime.KeepAlive(q)
	return f
}

// timed returns the mean time and allocations of n operations.
func timed(n int, do func()) figure {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	do()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return figure{float64(took) / float64(n), float64(after.Mallocs-before.Mallocs) / float64(n)}
}
