package main

import (
	"context"
	"encoding/json"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client/events"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// startScheduler starts the scheduler, under its own identity.
func (c *cluster) startScheduler() error {
	api, err := c.clientFor(&user.Info{Name: user.Scheduler, Groups: []string{user.Authenticated}})
	if err != nil {
		return err
	}
	const name = "default-scheduler"
	recorder, err := events.New(events.Config{Client: api, Component: name, Log: c.log})
	if err != nil {
		return err
	}
	pods := typed.Pods(api)
	scheduler, err := schedule.New(schedule.Config{
		Name:       name,
		Predicates: predicates.Default(),
		Priorities: priorities.Default(),
		Nodes:      c.copies.nodes,
		Pods:       c.copies.pods,
		Bind: func(ctx context.Context, pod *corev1.Pod, node string) error {
			// The UID keeps a later pod of the same name from being bound instead.
			return pods.Post(ctx, pod.Namespace, pod.Name, "binding", &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
				Target:     corev1.ObjectReference{Kind: "Node", Name: node},
			})
		},
		SetCondition: func(ctx context.Context, pod *corev1.Pod, condition corev1.PodCondition) error {
			patch, err := json.Marshal(map[string]any{
				"metadata": map[string]any{"uid": pod.UID},
				"status":   map[string]any{"conditions": []corev1.PodCondition{condition}},
			})
			if err != nil {
				return err
			}
			_, err = pods.Patch(ctx, pod.Namespace, pod.Name, types.StrategicMergePatchType, patch, "status")
			return err
		},
		Event: func(pod *corev1.Pod, eventType, reason, message string) {
			recorder.Event(pod, eventType, reason, message)
		},
		Log: c.log.WithName("scheduler"),
	})
	if err != nil {
		return err
	}
	c.stack.start("scheduler's events", recorder.Run)
	c.stack.start("scheduler", scheduler.Run)
	return nil
}
