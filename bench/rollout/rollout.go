package main

import (
	"context"
	"fmt"
	"time"

	"github.com/planekit/planekit/client/typed"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// figures holds two costs of a Deployment, measured from its create: until its pods
// exist, and until its status counts them.
type figures struct {
	exist, counted cost
}

// cost is a time, and the processor time that the servers used in it.
type cost struct {
	took, cpu time.Duration
}

// longest is more than any Deployment takes, in either direction.
const longest = 5 * time.Minute

func newDeployment(name string, replicas int) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	n := int32(replicas)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &n,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				// No scheduler has this name. The scheduler of planekit's cluster, which
				// has no nodes, would write that into the status of each pod.
				Spec: corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "nginx", Image: "nginx"}}},
			},
		},
	}
}

// rollOut makes a Deployment of a name that was never used, takes what that
// costs, and waits until nothing is left of it.
func (s *side) rollOut(ctx context.Context, name string, replicas int) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if err := s.quiet(ctx); err != nil {
		return f, err
	}
	used, err := s.cpu()
	if err != nil {
		return f, err
	}
	begin := time.Now()
	if _, err := typed.Deployments(s.api).Create(ctx, newDeployment(name, replicas)); err != nil {
		return f, err
	}
	for _, stage := range []struct {
		cost    *cost
		reached func(*rollout) bool
	}{
		{&f.exist, func(r *rollout) bool { return r.live >= replicas }},
		{&f.counted, func(r *rollout) bool { return r.counted >= replicas }},
	} {
		if err := s.watcher.await(ctx, func() bool { return stage.reached(s.watcher.of(name)) }); err != nil {
			return f, err
		}
		stage.cost.took = time.Since(begin)
		now, err := s.cpu()
		if err != nil {
			return f, err
		}
		stage.cost.cpu = now - used
	}
	return f, s.remove(ctx, name, replicas)
}

// remove deletes the Deployment in the foreground and waits until it is gone,
// and its pods before it. It fails if there ever were more pods than replicas.
func (s *side) remove(ctx context.Context, name string, replicas int) error {
	foreground := metav1.DeletePropagationForeground
	if err := typed.Deployments(s.api).Delete(ctx, namespace, name, metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		return err
	}
	pods := 0
	err := s.watcher.await(ctx, func() bool {
		r := s.watcher.of(name)
		pods = len(r.pods)
		return r.deleted && r.live == 0
	})
	if err == nil && pods != replicas {
		err = fmt.Errorf("%d pods were made", pods)
	}
	return err
}

// quiet waits until the servers have used next to no processor time for a while,
// at most 20 s: what the round before left to do is not for the next to pay.
func (s *side) quiet(ctx context.Context) error {
	const (
		pause   = 200 * time.Millisecond
		idle    = pause / 10 // a tenth of one processor
		pauses  = 100
		forLong = 3 // pauses
	)
	before, err := s.cpu()
	for i, still := 0, 0; i < pauses && still < forLong && err == nil; i++ {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		var now time.Duration
		if now, err = s.cpu(); now-before <= idle {
			still++
		} else {
			still = 0
		}
		before = now
	}
	return err
}
