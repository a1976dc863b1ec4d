package main

import (
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/events"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/reconcile/controllers"
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
	podsOf := informer.NewIndex(pods, controllers.ByController[*corev1.Pod])
	deployment, err := controllers.NewDeployment(controllers.DeploymentConfig{
		Deployments: deployments, ReplicaSets: sets, Pods: pods,
		ReplicaSetsByController: informer.NewIndex(sets, controllers.ByController[*appsv1.ReplicaSet]), PodsByController: podsOf,
		Writer: typed.Deployments(api), ReplicaSetWriter: typed.ReplicaSets(api), Events: recorder,
	})
	if err != nil {
		return nil, err
	}
	set, err := controllers.NewReplicaSet(controllers.ReplicaSetConfig{
		ReplicaSets: sets, Pods: pods, PodsByController: podsOf,
		Status: typed.ReplicaSets(api), Writer: typed.Pods(api), Events: recorder,
	})
	if err != nil {
		return nil, err
	}
	garbage, err := controllers.NewGarbage(controllers.GarbageConfig{Kinds: []controllers.GarbageKind{
		controllers.NewGarbageKind(appsv1.SchemeGroupVersion.WithKind("Deployment"), true, deployments, typed.Deployments(api)),
		controllers.NewGarbageKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), true, sets, typed.ReplicaSets(api)),
		controllers.NewGarbageKind(corev1.SchemeGroupVersion.WithKind("Pod"), true, pods, typed.Pods(api)),
	}})
	if err != nil {
		return nil, err
	}
	return []controllers.Runner{recorder, deployments, sets, pods, deployment, set, garbage}, nil
}
