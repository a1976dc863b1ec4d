// Package remote runs a scheduler for a cluster that it reaches through a client.
//
//	scheduler, err := remote.New(api, schedule.Config{
//		Name:       "ssd-scheduler",
//		Predicates: append(predicates.Default(), ssd),
//		Priorities: priorities.Default(),
//	})
//	err = scheduler.Run(ctx)
//
// It schedules the pods whose spec.schedulerName is Config.Name, or the name of one of Config.Profiles. An
// empty name is default-scheduler,
// which in most clusters another scheduler already has: two of one name compete for the same pods.
// The client's user needs
// the permissions of the cluster role system:kube-scheduler.
//
// Pods, nodes and disruption budgets, and namespaces if a predicate is a schedule.Preparer, are read
// through caches of its own, unless the configuration contains caches.
// While the API server is unreachable, decisions use the contents of the caches, and binds are
// retried.
package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/events"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Scheduler is a schedule.Scheduler with its caches and event recorder.
type Scheduler struct {
	scheduler *schedule.Scheduler
	// beside holds the Run methods that run together with the scheduler.
	beside []func(context.Context) error
}

// New returns a scheduler for the cluster of api. It sets those fields of config that access a
// cluster and are nil: Nodes, Pods, Namespaces, Budgets, Bind, SetCondition, Evict, Nominate and Event. It
// starts nothing.
func New(api *client.Client, config schedule.Config) (*Scheduler, error) {
	if api == nil {
		return nil, errors.New("remote: no client")
	}
	s := &Scheduler{}
	pods := typed.Pods(api)
	err := errors.Join(addCache(s, &config.Nodes, typed.Nodes(api)), addCache(s, &config.Pods, pods))
	if config.Budgets == nil {
		cache, budgetErr := informer.For(typed.PodDisruptionBudgets(api))
		err = errors.Join(err, budgetErr)
		config.Budgets, s.beside = cache, append(s.beside, cache.Run)
	}
	if needsNamespaces(&config) {
		err = errors.Join(err, addCache(s, &config.Namespaces, typed.Namespaces(api)))
	}
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	if config.Event == nil {
		if config.Event, err = s.recorders(api, &config); err != nil {
			return nil, fmt.Errorf("remote: %w", err)
		}
	}
	if config.Bind == nil {
		config.Bind = func(ctx context.Context, pod *corev1.Pod, node string) error { return bind(ctx, pods, pod, node) }
	}
	if config.Evict == nil {
		config.Evict = func(ctx context.Context, e schedule.Eviction) error { return evict(ctx, pods, e) }
	}
	if config.Nominate == nil {
		config.Nominate = func(ctx context.Context, pod *corev1.Pod, node string) error { return nominate(ctx, pods, pod, node) }
	}
	if config.SetCondition == nil {
		config.SetCondition = func(ctx context.Context, pod *corev1.Pod, condition corev1.PodCondition) error {
			return setCondition(ctx, pods, pod, condition)
		}
	}
	s.scheduler, err = schedule.New(config)
	return s, err
}

// recorders returns a function that records events with the name of a scheduler's profile as their source.
func (s *Scheduler) recorders(api *client.Client, config *schedule.Config) (func(string, *corev1.Pod, string, string, string), error) {
	names := []string{config.Name}
	if len(config.Profiles) > 0 {
		names = nil
		for _, p := range config.Profiles {
			names = append(names, p.Name)
		}
	}
	byName := make(map[string]*events.Recorder)
	for _, name := range names {
		name = cmp.Or(name, corev1.DefaultSchedulerName)
		recorder, err := events.New(events.Config{Client: api, Component: name, Log: config.Log})
		if err != nil {
			return nil, err
		}
		byName[name], s.beside = recorder, append(s.beside, recorder.Run)
	}
	return func(scheduler string, pod *corev1.Pod, eventType, reason, message string) {
		byName[scheduler].Event(pod, eventType, reason, message)
	}, nil
}

// needsNamespaces reports whether a predicate looks at the whole cluster.
func needsNamespaces(config *schedule.Config) bool {
	return slices.ContainsFunc(config.Predicates, isPreparer) || slices.ContainsFunc(config.Profiles, func(p schedule.Profile) bool {
		return slices.ContainsFunc(p.Predicates, isPreparer)
	})
}

func isPreparer(p schedule.Predicate) bool {
	_, ok := p.(schedule.Preparer)
	return ok
}

// addCache sets field to a new cache of a resource, which runs together with s, unless it is set.
func addCache[T client.Object](s *Scheduler, field *localcache.Subscriber[T], resource client.Resource[T]) error {
	if *field != nil {
		return nil
	}
	cache, err := informer.For(resource)
	if err == nil {
		*field, s.beside = cache, append(s.beside, cache.Run)
	}
	return err
}

// Run schedules until ctx is done and then returns nil, or returns the first error.
func (s *Scheduler) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(s.beside)+1)
	for _, run := range append(s.beside, s.scheduler.Run) {
		go func() {
			defer cancel() // each depends on the others
			ended <- run(ctx)
		}()
	}
	var failed error
	for range cap(ended) {
		failed = cmp.Or(failed, <-ended)
	}
	return failed
}

// bind creates the binding. Its UID prevents it from binding a later pod of the same name.
func bind(ctx context.Context, pods client.Resource[*corev1.Pod], pod *corev1.Pod, node string) error {
	return pods.Post(ctx, pod.Namespace, pod.Name, "binding", &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	})
}

func setCondition(ctx context.Context, pods client.Resource[*corev1.Pod], pod *corev1.Pod, condition corev1.PodCondition) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"conditions": []corev1.PodCondition{condition}},
	})
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, pod.Namespace, pod.Name, types.StrategicMergePatchType, patch, "status")
	return err
}

// evict deletes a pod after its status says why. A pod that is gone, or replaced by another of its name, has
// ended.
func evict(ctx context.Context, pods client.Resource[*corev1.Pod], e schedule.Eviction) error {
	err := setCondition(ctx, pods, e.Victim, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		Reason:  corev1.PodReasonPreemptionByScheduler,
		Message: e.Scheduler + ": preempting to accommodate a higher priority pod",
	})
	if err == nil {
		err = pods.Delete(ctx, e.Victim.Namespace, e.Victim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(e.Victim.UID))})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// nominate stores the node that is reserved for a pod, or removes it.
func nominate(ctx context.Context, pods client.Resource[*corev1.Pod], pod *corev1.Pod, node string) error {
	var value any // null removes the field
	if node != "" {
		value = node
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"nominatedNodeName": value},
	})
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, pod.Namespace, pod.Name, types.StrategicMergePatchType, patch, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the pod is gone
	}
	return err
}
