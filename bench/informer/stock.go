package main

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// stock is client-go's shared informer.
type stock struct {
	inf     cache.SharedIndexInformer
	changes chan watch.Event
	cancel  context.CancelFunc
	done    chan struct{}
}

var indexers = cache.Indexers{
	cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	"node":               func(o any) ([]string, error) { return []string{o.(*corev1.Pod).Spec.NodeName}, nil },
}

// events is a watch that sends the changes in its channel.
type events struct{ changes chan watch.Event }

func (events) Stop()                            {}
func (e events) ResultChan() <-chan watch.Event { return e.changes }

// newStock lists pods and watches the changes in its channel.
func newStock(list []*corev1.Pod) *stock {
	s := &stock{changes: make(chan watch.Event, 1000)}
	all := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(len(list))}, Items: make([]corev1.Pod, len(list))}
	for i, p := range list {
		all.Items[i] = *p
	}
	s.inf = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return all, nil },
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil)
			}
			return events{s.changes}, nil
		},
	}, &corev1.Pod{}, 0, indexers)
	return s
}

func (s *stock) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.done = cancel, make(chan struct{})
	go func() {
		defer close(s.done)
		s.inf.RunWithContext(ctx)
	}()
	cache.WaitForCacheSync(ctx.Done(), s.inf.HasSynced)
}

func (s *stock) stop() {
	s.cancel()
	<-s.done
}

func (s *stock) follow(handlers int, last string) (received *sync.WaitGroup, calls *atomic.Int64, err error) {
	received, calls = new(sync.WaitGroup), new(atomic.Int64)
	received.Add(handlers)
	for range handlers {
		n := int64(0)
		count := func(o any) {
			n++
			if o.(*corev1.Pod).ResourceVersion == last {
				calls.Add(n)
				received.Done()
			}
		}
		h, err := s.inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: count, UpdateFunc: func(_, new any) { count(new) }, DeleteFunc: count})
		if err != nil {
			return nil, nil, err
		}
		cache.WaitForCacheSync(nil, h.HasSynced)
	}
	return received, calls, nil
}
