package controllers

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/reconcile"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGarbageConfig joins a PodGarbage controller to its surroundings. All
// fields but the last two must be set.
type PodGarbageConfig struct {
	Pods  Cache[*corev1.Pod]
	Nodes Cache[*corev1.Node]
	// NodeReader reads a node from the API, not from a local copy.
	NodeReader interface {
		Get(ctx context.Context, namespace, name string) (*corev1.Node, error)
	}
	Writer Deleter
	// Workers is how many pods are looked at at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// PodGarbage deletes pods that are bound to nodes which no longer exist, and
// which nobody else would ever end.
type PodGarbage struct {
	*loop
	config PodGarbageConfig
}

// NewPodGarbage checks config. It starts nothing.
func NewPodGarbage(config PodGarbageConfig) (*PodGarbage, error) {
	err := required("PodGarbageConfig", "Pods", config.Pods, "Nodes", config.Nodes,
		"NodeReader", config.NodeReader, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	c := &PodGarbage{config: config}
	if c.loop, err = newLoop("podgarbage", config.Workers, config.Log, reconcile.Backoff{}, c.reconcile); err != nil {
		return nil, err
	}
	watch(c.loop, config.Pods, func(old, new *corev1.Pod) {
		if new != nil && new.Spec.NodeName != "" && (old == nil || old.Spec.NodeName == "") {
			c.Enqueue(key(new))
		}
	})
	watch(c.loop, config.Nodes, func(_, new *corev1.Node) {
		if new != nil {
			return
		}
		for pod := range config.Pods.All() {
			if pod.Spec.NodeName != "" {
				c.Enqueue(key(pod))
			}
		}
	})
	return c, nil
}

func (c *PodGarbage) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	pod, ok := c.config.Pods.Get(key)
	if !ok || pod.Spec.NodeName == "" {
		return reconcile.Result{}, nil
	}
	if _, ok := c.config.Nodes.Get(pod.Spec.NodeName); ok {
		return reconcile.Result{}, nil
	}
	if _, err := c.config.NodeReader.Get(ctx, "", pod.Spec.NodeName); !apierrors.IsNotFound(err) {
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("node %s of pod %s: %w", pod.Spec.NodeName, key, err)
		}
		return reconcile.Result{}, nil // on its way to the copy
	}
	// At once: there is no kubelet that could confirm the end.
	now := int64(0)
	err := c.config.Writer.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("delete pod %s: %w", key, err)
	}
	return reconcile.Result{}, nil
}
