package configmaps

import (
	"context"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// TestClientGo runs the controller with client-go's informers, work queue and typed clients.
func TestClientGo(t *testing.T) {
	config := start(t)
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactory(clients, 0)
	deployments, maps := factory.Apps().V1().Deployments(), factory.Core().V1().ConfigMaps()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	enqueue := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key) // a ConfigMap has the name of its Deployment
		}
	}
	for _, informer := range []cache.SharedIndexInformer{deployments.Informer(), maps.Informer()} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) }, DeleteFunc: enqueue,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	reconcile := func(key string) error {
		namespace, name, err := cache.SplitMetaNamespaceKey(key)
		if err != nil {
			return err
		}
		deployment, err := deployments.Lister().Deployments(namespace).Get(name)
		if apierrors.IsNotFound(err) {
			return nil // garbage collection deletes the ConfigMap
		}
		if err != nil || deployment.Annotations[annotation] == "" || deployment.DeletionTimestamp != nil {
			return err
		}
		wanted := settings(deployment)
		have, err := maps.Lister().ConfigMaps(namespace).Get(name)
		switch {
		case apierrors.IsNotFound(err):
			_, err = clients.CoreV1().ConfigMaps(namespace).Create(ctx, wanted, metav1.CreateOptions{})
		case err == nil && have.Data["settings"] != wanted.Data["settings"]:
			wanted.ResourceVersion = have.ResourceVersion
			_, err = clients.CoreV1().ConfigMaps(namespace).Update(ctx, wanted, metav1.UpdateOptions{})
		}
		return err
	}
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	var workers sync.WaitGroup
	workers.Go(func() {
		for key, done := queue.Get(); !done; key, done = queue.Get() {
			if err := reconcile(key); err != nil {
				queue.AddRateLimited(key)
			} else {
				queue.Forget(key)
			}
			queue.Done(key)
		}
	})
	t.Cleanup(func() {
		stop()
		queue.ShutDown()
		workers.Wait()
		factory.Shutdown()
	})
	exercise(t, config)
}
