package caches

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/plane/stack"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodes is a source of one node. It counts how often it is read, and takes a second to end.
type nodes struct{ read atomic.Int32 }

func (n *nodes) Sync(ctx context.Context, _ string, sink informer.Sink[*corev1.Node]) error {
	n.read.Add(1)
	sink.Replace("1", []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "node-1", ResourceVersion: "1"}}})
	<-ctx.Done()
	time.Sleep(time.Second)
	return ctx.Err()
}

// TestGroupStart starts one cache first, and then the other: each once.
func TestGroupStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group Group
		var sources [2]nodes
		first, err := Add(&group, "first", informer.Source[*corev1.Node](&sources[0]), logr.Discard())
		if err != nil {
			t.Fatal(err)
		}
		second, err := Add(&group, "second", informer.Source[*corev1.Node](&sources[1]), logr.Discard())
		if err != nil {
			t.Fatal(err)
		}
		s := stack.New()
		for _, step := range []struct {
			start         func()
			first, second int32
		}{
			{func() {}, 0, 0},
			{func() { group.Start(s, first) }, 1, 0},
			{func() { group.Start(s, first) }, 1, 0},
			{func() { group.Start(s) }, 1, 1},
			{func() { group.Start(s) }, 1, 1},
		} {
			step.start()
			synctest.Wait()
			if a, b := sources[0].read.Load(), sources[1].read.Load(); a != step.first || b != step.second {
				t.Errorf("the sources are read %d and %d times, want %d and %d", a, b, step.first, step.second)
			}
			for i, cache := range []*informer.Informer[*corev1.Node]{first, second} {
				if _, ok := cache.Get("node-1"); ok != (sources[i].read.Load() == 1) {
					t.Errorf("cache %d has its object: %v", i, ok)
				}
			}
		}
		go func() {
			time.Sleep(time.Second / 2)
			if name := s.WaitingFor(); name != "informer of second" {
				t.Errorf("the stack waits for %q first", name)
			}
		}()
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
}
