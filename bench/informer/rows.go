package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/intern"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// sizes holds the numbers of objects and operations.
type sizes struct {
	pods, events, readerPods, readerEvents, handlers, readers, lookups int
}

var (
	full  = sizes{pods: 100_000, events: 200_000, readerPods: 160_000, readerEvents: 400_000, handlers: 10, readers: 40, lookups: 1_000_000}
	short = sizes{pods: 5_000, events: 5_000, readerPods: 5_000, readerEvents: 5_000, handlers: 10, readers: 4, lookups: 10_000}
)

// eventRun is the result of one side for many changes.
type eventRun struct {
	perSecond float64
	// allocs is the number of allocations for each event and handler.
	allocs float64
}

// measureEvents runs feed, which sends n changes, and waits until all handlers have received them.
func measureEvents(n, handlers int, received *sync.WaitGroup, feed func()) eventRun {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	feed()
	received.Wait()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return eventRun{float64(n) / took.Seconds(), float64(after.Mallocs-before.Mallocs) / float64(n) / float64(handlers)}
}

func planekitEvents(pods, changes []*corev1.Pod, handlers int) (eventRun, error) {
	f := &feed{list: pods, changes: make(chan []*corev1.Pod)}
	p, err := newPlanekit(f)
	if err != nil {
		return eventRun{}, err
	}
	p.start()
	defer p.stop()
	received, calls := p.follow(handlers, changes[len(changes)-1].ResourceVersion)
	run := measureEvents(len(changes), handlers, received, func() { f.changes <- changes })
	if want := int64(handlers * (len(changes) + len(pods))); calls.Load() != want {
		return run, fmt.Errorf("planekit: %d calls, want %d", calls.Load(), want)
	}
	return run, nil
}

func stockEvents(pods, changes []*corev1.Pod, handlers int) (eventRun, error) {
	s := newStock(pods)
	s.start()
	defer s.stop()
	received, calls, err := s.follow(handlers, changes[len(changes)-1].ResourceVersion)
	if err != nil {
		return eventRun{}, err
	}
	run := measureEvents(len(changes), handlers, received, func() {
		for _, p := range changes {
			s.changes <- watch.Event{Type: watch.Modified, Object: p}
		}
	})
	if want := int64(handlers * (len(changes) + len(pods))); calls.Load() != want {
		return run, fmt.Errorf("client-go: %d calls, want %d", calls.Load(), want)
	}
	return run, nil
}

// contention is the result of many readers during continuous changes: each looks up one object by
// its key, then the objects of one node. Readers then yield, like workers that wait between two
// look-ups. Greedy readers do not yield, which mainly measures Go's scheduler: each keeps its
// processor for 10 ms, and the writer has to wait for its turn.
type contention struct{ events, reads float64 }

func measureContention(s sizes, greedy bool, pods []*corev1.Pod, changes int, received *sync.WaitGroup, feed func(), get func(key, node string) int) contention {
	keys := make([]string, len(pods))
	for i, p := range pods {
		keys[i] = key(p)
	}
	var ended atomic.Bool
	var reads atomic.Int64
	var readers sync.WaitGroup
	runtime.GC()
	start := time.Now()
	for n := range s.readers {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			own := int64(0)
			for !ended.Load() {
				i := r.IntN(len(keys))
				if get(keys[i], pods[i].Spec.NodeName) == 0 {
					panic("a node without pods")
				}
				own += 2
				if !greedy {
					runtime.Gosched()
				}
			}
			reads.Add(own)
		})
	}
	feed()
	received.Wait()
	took := time.Since(start).Seconds()
	ended.Store(true)
	readers.Wait()
	return contention{float64(changes) / took, float64(reads.Load()) / took}
}

func planekitContention(s sizes, greedy bool, pods, changes []*corev1.Pod) (contention, error) {
	f := &feed{list: pods, changes: make(chan []*corev1.Pod)}
	p, err := newPlanekit(f)
	if err != nil {
		return contention{}, err
	}
	p.start()
	defer p.stop()
	received, _ := p.follow(1, changes[len(changes)-1].ResourceVersion)
	return measureContention(s, greedy, pods, len(changes), received, func() { f.changes <- changes }, func(key, node string) int {
		if _, ok := p.inf.Get(key); !ok {
			return 0
		}
		n := 0
		for range p.byNode.Get(node) {
			n++
		}
		return n
	}), nil
}

func stockContention(s sizes, greedy bool, pods, changes []*corev1.Pod) (contention, error) {
	k := newStock(pods)
	k.start()
	defer k.stop()
	received, _, err := k.follow(1, changes[len(changes)-1].ResourceVersion)
	if err != nil {
		return contention{}, err
	}
	indexer := k.inf.GetIndexer()
	return measureContention(s, greedy, pods, len(changes), received, func() {
		for _, p := range changes {
			k.changes <- watch.Event{Type: watch.Modified, Object: p}
		}
	}, func(key, node string) int {
		if _, ok, _ := indexer.GetByKey(key); !ok {
			return 0
		}
		found, _ := indexer.ByIndex("node", node)
		return len(found)
	}), nil
}

// wireRun is the result of a first list that is received over HTTP and decoded.
type wireRun struct {
	took time.Duration
	// heap is the size of the cache, in bytes.
	heap float64
	// peak is the maximum growth of the heap during another list in which one pod in a thousand has
	// changed.
	peak float64
}

// over runs a side from start to stop. ready returns when the side has a pod at a revision, or any
// pod for the empty revision.
func over(s *server, start func() (ready func(revision string), stop func(), err error), relist bool, changed string) (wireRun, error) {
	settled := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := settled()
	began := time.Now()
	ready, stop, err := start()
	if err != nil {
		return wireRun{}, err
	}
	defer stop()
	ready("")
	run := wireRun{took: time.Since(began)}
	steady := settled()
	run.heap = steady - before
	if !relist {
		return run, nil
	}
	// The collector runs often, so that the peak excludes garbage.
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	steady = settled()
	most, end := make(chan float64), make(chan struct{})
	go func() {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for peak := 0.0; ; runtime.Gosched() {
			metrics.Read(sample)
			peak = max(peak, float64(sample[0].Value.Uint64()))
			select {
			case <-end:
				most <- peak
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	s.expire()
	ready(changed)
	close(end)
	run.peak = (<-most - before) / (steady - before)
	return run, nil
}

func planekitOver(s *server, share bool, last string) func() (func(string), func(), error) {
	return func() (func(string), func(), error) {
		c, err := client.New(client.Config{Server: s.URL})
		if err != nil {
			return nil, nil, err
		}
		pods := typed.Pods(c)
		if share {
			pods = pods.WithUnmarshal(intern.New().UnmarshalPod)
		}
		p, err := newPlanekit(pods)
		if err != nil {
			return nil, nil, err
		}
		p.start()
		return func(revision string) {
				for o, _ := p.inf.Get(last); revision != "" && o.ResourceVersion != revision; o, _ = p.inf.Get(last) {
					time.Sleep(time.Millisecond)
				}
			}, func() {
				p.stop()
				c.Close()
			}, nil
	}
}

func stockOver(s *server, last string) func() (func(string), func(), error) {
	return func() (func(string), func(), error) {
		config := &rest.Config{Host: s.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}}
		c, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, nil, err
		}
		k := &stock{inf: cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(
			cache.NewListWatchFromClient(c.CoreV1().RESTClient(), "pods", "", fields.Everything()), c), &corev1.Pod{}, 0, indexers)}
		k.start()
		return func(revision string) {
			for revision != "" {
				if o, ok, _ := k.inf.GetIndexer().GetByKey(last); ok && o.(*corev1.Pod).ResourceVersion == revision {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}, k.stop, nil
	}
}
