package main

import (
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/events"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/deployment"
	"github.com/planekit/planekit/reconcile/controllers/garbage"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	"github.com/planekit/planekit/reconcile/controllers/replicaset"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// newControllers returns what turns Deployments into pods and removes them with
// their owners, acting through api, to be run together.
func newControllers(api *client.Client) ([]controllers.Runner, error) {
	recorder, err := events.New(events.Config{Client: api, Component: "rollout"})
	if err != nil {
		return nil, err
	}
	deployments, err := informer.For(typed.Deployments(api))
	if err != nil {
		return nil, err
	}
	sets, err := informer.For(typed.ReplicaSets(api))
	if err != nil {
		return nil, err
	}
	pods, err := informer.For(typed.Pods(api))
	if err != nil {
		return nil, err
	}
	podsOf := informer.NewIndex(pods, owner.ByController[*corev1.Pod])
	deployment, err := deployment.New(deployment.Config{
		Deployments: deployments, ReplicaSets: sets, Pods: pods,
		ReplicaSetsByController: informer.NewIndex(sets, owner.ByController[*appsv1.ReplicaSet]), PodsByController: podsOf,
		Writer: typed.Deployments(api), ReplicaSetWriter: typed.ReplicaSets(api), Events: recorder,
	})
	if err != nil {
		return nil, err
	}
	set, err := replicaset.New(replicaset.Config{
		ReplicaSets: sets, Pods: pods, PodsByController: podsOf,
		Writer: typed.ReplicaSets(api), PodWriter: typed.Pods(api), Events: recorder,
	})
	if err != nil {
		return nil, err
	}
	garbage, err := garbage.New(garbage.Config{Kinds: []garbage.Kind{
		garbage.NewKind(appsv1.SchemeGroupVersion.WithKind("Deployment"), true, deployments, typed.Deployments(api)),
		garbage.NewKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), true, sets, typed.ReplicaSets(api)),
		garbage.NewKind(corev1.SchemeGroupVersion.WithKind("Pod"), true, pods, typed.Pods(api)),
	}})
	if err != nil {
		return nil, err
	}
	return []controllers.Runner{recorder, deployments, sets, pods, deployment, set, garbage}, nil
}
