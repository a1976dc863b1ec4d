package controllers_test

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	"github.com/planekit/planekit/reconcile/controllers/replicaset"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// A ReplicaSet controller next to an API server in memory. In a real program
// the copies are informers and the writers are clients.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := newWorld()
	pods := follow(ctx, w.pods, lag{})
	c, err := replicaset.New(replicaset.Config{
		ReplicaSets:      follow[*appsv1.ReplicaSet](ctx, w.replicaSets, lag{}),
		Pods:             pods,
		PodsByController: localcache.Scan(pods, owner.ByController[*corev1.Pod]),
		Writer:           w.replicaSets,
		PodWriter:        w.pods,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()

	created := make(chan string)
	subscription := pods.Subscribe(func(_, pod *corev1.Pod) { created <- pod.OwnerReferences[0].Name })
	if _, err := w.replicaSets.Create(ctx, newReplicaSet("nginx", 3)); err != nil {
		fmt.Println(err)
	}
	for range 3 {
		fmt.Println("a pod of", <-created)
	}
	subscription.Stop()
	cancel()
	fmt.Println(<-done)
	// Output:
	// a pod of nginx
	// a pod of nginx
	// a pod of nginx
	// <nil>
}
