package compat

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

// TestController: a controller in the style of client-go's examples keeps a copy of every config
// map in another namespace.
func TestController(t *testing.T) {
	shows(t, "client-go", "a controller of informer, rate-limited work queue and typed clients")
	clients := clientset(t, serve(t))
	ctx, cancel := context.WithCancel(bounded(t))
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()

	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace("default"))
	informer := factory.Core().V1().ConfigMaps()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	enqueue := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) }, DeleteFunc: enqueue,
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	reconcile := func(key string) error {
		_, name, err := cache.SplitMetaNamespaceKey(key)
		if err != nil {
			return err
		}
		original, err := informer.Lister().ConfigMaps("default").Get(name)
		if apierrors.IsNotFound(err) {
			if err := clients.CoreV1().ConfigMaps("mirror").Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
				return err
			}
			return nil
		}
		if err != nil {
			return err
		}
		return mirror(ctx, clients, original)
	}
	for range 3 {
		workers.Go(func() {
			for key, done := queue.Get(); !done; key, done = queue.Get() {
				if err := reconcile(key); err != nil && ctx.Err() == nil {
					queue.AddRateLimited(key)
				} else {
					queue.Forget(key)
				}
				queue.Done(key)
			}
		})
	}
	testMirror(ctx, t, clients)
	queue.ShutDown()
}

// mirror writes the copy of original.
func mirror(ctx context.Context, clients *kubernetes.Clientset, original *corev1.ConfigMap) error {
	copies := clients.CoreV1().ConfigMaps("mirror")
	got, err := copies.Get(ctx, original.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		made := configMap(original.Name, original.Data)
		made.Namespace = "mirror"
		_, err = copies.Create(ctx, made, metav1.CreateOptions{})
		return err
	}
	if err == nil {
		got.Data = original.Data
		_, err = copies.Update(ctx, got, metav1.UpdateOptions{})
	}
	return err
}

// testMirror changes originals and waits until their copies are equal.
func testMirror(ctx context.Context, t *testing.T, clients *kubernetes.Clientset) {
	originals, copies := clients.CoreV1().ConfigMaps("default"), clients.CoreV1().ConfigMaps("mirror")
	const objects = 20
	for i := range objects {
		if _, err := originals.Create(ctx, configMap(fmt.Sprint("object-", i), map[string]string{"value": "old"}), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range objects {
		name := fmt.Sprint("object-", i)
		if i%2 == 0 {
			err := originals.Delete(ctx, name, metav1.DeleteOptions{})
			if err != nil {
				t.Fatal(err)
			}
		} else if _, err := originals.Update(ctx, configMap(name, map[string]string{"value": "new"}), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(ctx, t, func() (bool, string) {
		list, err := copies.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		current := 0
		for _, item := range list.Items {
			if item.Data["value"] == "new" {
				current++
			}
		}
		return len(list.Items) == objects/2 && current == objects/2, fmt.Sprintf("%d copies, %d of them current", len(list.Items), current)
	})
}

// eventually waits until the condition holds.
func eventually(ctx context.Context, t *testing.T, so func() (bool, string)) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, state := so()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(state)
		}
	}
}

// TestLeaderElection: one of two candidates leads, and the other when the first releases the lease.
func TestLeaderElection(t *testing.T) {
	shows(t, "client-go", "leader election over a Lease, released and taken over")
	clients := clientset(t, serve(t))
	ctx := bounded(t)
	leads := make(chan string, 2) // each leads once
	candidate := func(name string) (stop func()) {
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "the-one"},
				Client:     clients.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: name},
			},
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 50 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leads <- name },
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(done)
			elector.Run(ctx)
		}()
		return func() { cancel(); <-done }
	}
	stops := map[string]func(){"one": candidate("one"), "two": candidate("two")}
	first := receive(t, leads)
	select {
	case second := <-leads:
		t.Fatalf("%s and %s both lead", first, second)
	default:
	}
	stops[first]()
	second := receive(t, leads)
	if second == first {
		t.Errorf("%s leads again after it stopped", first)
	}
	lease, err := clients.CoordinationV1().Leases("default").Get(ctx, "the-one", metav1.GetOptions{})
	if err != nil || *lease.Spec.HolderIdentity != second || *lease.Spec.LeaseTransitions == 0 {
		t.Errorf("lease %+v %v", lease, err)
	}
	stops[second]()
}

// TestEvents: a recorder writes an event and raises its count when it recurs.
func TestEvents(t *testing.T) {
	shows(t, "client-go", "events recorder: events written, repeated ones counted by a patch")
	clients := clientset(t, serve(t))
	ctx := bounded(t)
	object, err := clients.CoreV1().ConfigMaps("default").Create(ctx, configMap("spoken-of", nil), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: clients.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "compat"})
	const times = 3
	for range times {
		recorder.Eventf(object, corev1.EventTypeWarning, "Noticed", "it is %s", "there")
	}
	eventually(ctx, t, func() (bool, string) {
		list, err := clients.CoreV1().Events("default").List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=spoken-of,involvedObject.uid=" + string(object.UID) + ",reason=Noticed",
		})
		if err != nil || len(list.Items) != 1 {
			return false, fmt.Sprintf("%d events, %v", len(list.Items), err)
		}
		event := list.Items[0]
		return event.Count == times && strings.HasPrefix(event.Name, "spoken-of.") && event.Message == "it is there",
			fmt.Sprintf("%+v", event)
	})
}
