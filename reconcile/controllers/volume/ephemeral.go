package volume

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/internal/volumeclaim"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EphemeralConfig configures an Ephemeral. Pods, Claims and Writer are required.
type EphemeralConfig struct {
	Pods   localcache.Cache[*corev1.Pod]
	Claims localcache.Cache[*corev1.PersistentVolumeClaim]
	Writer controllers.Creator[*corev1.PersistentVolumeClaim]
	// Workers is the number of pods processed concurrently. Zero means 5.
	Workers int
	// Events receives the events about pods. Nil means none.
	Events controllers.Events
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Ephemeral creates the claim of each ephemeral volume of a pod, called POD-VOLUME. The pod is its
// owner, so that the garbage collector deletes it with the pod. A claim of that name that belongs to
// something else is left alone, and the pod does not start.
type Ephemeral struct {
	*reconcile.Controller[string]
	config EphemeralConfig
}

// NewEphemeral returns a controller, or an error if config lacks a required field. It starts nothing.
func NewEphemeral(config EphemeralConfig) (*Ephemeral, error) {
	err := loop.Required("volume: EphemeralConfig", "Pods", config.Pods, "Claims", config.Claims, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	if config.Events == nil {
		config.Events = controllers.NoEvents{}
	}
	c := &Ephemeral{config: config}
	if c.Controller, err = loop.New(loop.Config{Name: "ephemeral_volume", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.WatchFunc(c.Controller, config.Pods, func(old, new *corev1.Pod) {
		// The volumes of a pod do not change.
		if new != nil && (old == nil || old.UID != new.UID) && hasEphemeral(new) {
			c.Enqueue(localcache.KeyOf(new))
		}
	})
	reconcile.WatchFunc(c.Controller, config.Claims, func(old, new *corev1.PersistentVolumeClaim) {
		if new != nil {
			return
		}
		if owner := metav1.GetControllerOfNoCopy(old); owner != nil && owner.Kind == podKind.Kind {
			c.Enqueue(localcache.Key(old.Namespace, owner.Name))
		}
	})
	return c, nil
}

func hasEphemeral(pod *corev1.Pod) bool {
	for u := range volumeclaim.Uses(pod) {
		if u.Ephemeral {
			return true
		}
	}
	return false
}

func (c *Ephemeral) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	pod, ok := c.config.Pods.Get(key)
	if !ok || pod.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	for u := range volumeclaim.Uses(pod) {
		if !u.Ephemeral {
			continue
		}
		err := c.ensure(ctx, pod, u)
		if apierrors.IsAlreadyExists(err) {
			return reconcile.Result{Requeue: true}, nil // the cache will show whose it is
		}
		if err != nil {
			c.config.Events.Event(loop.Reference(pod, podKind), corev1.EventTypeWarning, "FailedBinding",
				fmt.Sprintf("ephemeral volume %s: %v", u.Volume.Name, err))
			return reconcile.Result{}, fmt.Errorf("pod %s, ephemeral volume %s: %w", key, u.Volume.Name, err)
		}
	}
	return reconcile.Result{}, nil
}

// ensure creates the claim of an ephemeral volume unless it exists.
func (c *Ephemeral) ensure(ctx context.Context, pod *corev1.Pod, u volumeclaim.Use) error {
	if claim, ok := c.config.Claims.Get(localcache.Key(pod.Namespace, u.Claim)); ok {
		return volumeclaim.CheckOwner(pod, claim)
	}
	template := u.Volume.Ephemeral.VolumeClaimTemplate
	if template == nil {
		return nil // refused by validation
	}
	_, err := c.config.Writer.Create(ctx, &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: claimKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: u.Claim, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: podKind.Kind, Name: pod.Name, UID: pod.UID, Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: template.Spec,
	})
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return err
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	}
	return fmt.Errorf("create PVC %s: %w", u.Claim, err)
}
