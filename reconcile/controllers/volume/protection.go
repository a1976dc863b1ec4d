package volume

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/internal/volumeclaim"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClaimProtectionConfig configures a ClaimProtection. Claims, Pods, PodsByClaim, ListPods and Writer
// are required.
type ClaimProtectionConfig struct {
	Claims      localcache.Cache[*corev1.PersistentVolumeClaim]
	Pods        localcache.Cache[*corev1.Pod]
	PodsByClaim localcache.Index[string, *corev1.Pod] // see [ByClaim]
	// ListPods returns the pods of a namespace from the API, not from a cache.
	ListPods func(ctx context.Context, namespace string) ([]*corev1.Pod, error)
	Writer   controllers.Updater[*corev1.PersistentVolumeClaim]
	// Workers is the number of claims processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// ClaimProtection keeps the finalizer kubernetes.io/pvc-protection on claims. It removes it from a
// claim that is being deleted once no pod on a node uses it.
type ClaimProtection struct {
	*reconcile.Controller[string]
	config ClaimProtectionConfig
}

// NewClaimProtection returns a controller, or an error if config lacks a required field. It starts
// nothing.
func NewClaimProtection(config ClaimProtectionConfig) (*ClaimProtection, error) {
	err := loop.Required("volume: ClaimProtectionConfig", "Claims", config.Claims, "Pods", config.Pods,
		"PodsByClaim", config.PodsByClaim, "ListPods", config.ListPods, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	c := &ClaimProtection{config: config}
	if c.Controller, err = loop.New(loop.Config{Name: "persistentvolumeclaim_protection", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.Watch(c.Controller, config.Claims, reconcile.Itself(localcache.KeyOf[*corev1.PersistentVolumeClaim]))
	reconcile.WatchFunc(c.Controller, config.Pods, func(old, new *corev1.Pod) {
		// A pod stops using a claim when it is deleted or has ended; another of its name may follow at once.
		if old != nil && (new == nil || new.UID != old.UID || podstatus.Ended(new) && !podstatus.Ended(old)) {
			for _, key := range ByClaim(old) {
				c.Enqueue(key)
			}
		}
	})
	return c, nil
}

func (c *ClaimProtection) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	claim, ok := c.config.Claims.Get(key)
	if !ok {
		return reconcile.Result{}, nil
	}
	next := claim.DeepCopy()
	change := protect(next, volumeclaim.ClaimProtection)
	if change == released {
		used, err := c.isUsed(ctx, key, claim)
		if used || err != nil {
			return reconcile.Result{}, err
		}
	}
	if change == unchanged {
		return reconcile.Result{}, nil
	}
	if _, err := c.config.Writer.Update(ctx, next); err != nil {
		return reconcile.Result{}, fmt.Errorf("finalizer of claim %s: %w", key, err)
	}
	return reconcile.Result{}, nil
}

// isUsed reports whether a pod uses a claim. If the cache has none, the API is asked.
func (c *ClaimProtection) isUsed(ctx context.Context, key string, claim *corev1.PersistentVolumeClaim) (bool, error) {
	for pod := range c.config.PodsByClaim.Get(key) {
		if uses(pod, claim) {
			return true, nil
		}
	}
	pods, err := c.config.ListPods(ctx, claim.Namespace)
	if err != nil {
		return false, fmt.Errorf("pods of claim %s: %w", key, err)
	}
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return uses(p, claim) }), nil
}

// uses reports whether a pod on a node uses a claim. A pod without a node does not count: no kubelet
// starts one whose claim is being deleted.
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	for u := range volumeclaim.Uses(pod) {
		if u.Claim == claim.Name && (!u.Ephemeral || !podstatus.Ended(pod) && volumeclaim.CheckOwner(pod, claim) == nil) {
			return true
		}
	}
	return false
}

// ProtectionConfig configures a Protection. Volumes and Writer are required.
type ProtectionConfig struct {
	Volumes localcache.Cache[*corev1.PersistentVolume]
	Writer  controllers.Updater[*corev1.PersistentVolume]
	// Workers is the number of volumes processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Protection keeps the finalizer kubernetes.io/pv-protection on persistent volumes. It removes it
// from a volume that is being deleted once the volume is not bound.
type Protection struct {
	*reconcile.Controller[string]
	config ProtectionConfig
}

// NewProtection returns a controller, or an error if config lacks a required field. It starts nothing.
func NewProtection(config ProtectionConfig) (*Protection, error) {
	err := loop.Required("volume: ProtectionConfig", "Volumes", config.Volumes, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	c := &Protection{config: config}
	if c.Controller, err = loop.New(loop.Config{Name: "persistentvolume_protection", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.Watch(c.Controller, config.Volumes, reconcile.Itself((*corev1.PersistentVolume).GetName))
	return c, nil
}

func (c *Protection) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	v, ok := c.config.Volumes.Get(name)
	if !ok {
		return reconcile.Result{}, nil
	}
	next := v.DeepCopy()
	change := protect(next, volumeclaim.VolumeProtection)
	if change == unchanged || change == released && v.Status.Phase == corev1.VolumeBound {
		return reconcile.Result{}, nil
	}
	if _, err := c.config.Writer.Update(ctx, next); err != nil {
		return reconcile.Result{}, fmt.Errorf("finalizer of persistent volume %s: %w", name, err)
	}
	return reconcile.Result{}, nil
}

// protection is a change of an object's finalizer.
type protection int

const (
	unchanged protection = iota
	added
	released
)

// protect adds a finalizer to an object, or removes it from one that is being deleted.
func protect(object metav1.Object, finalizer string) protection {
	finalizers := object.GetFinalizers()
	has := slices.Contains(finalizers, finalizer)
	switch deleting := object.GetDeletionTimestamp() != nil; {
	case deleting && has:
		object.SetFinalizers(slices.DeleteFunc(finalizers, func(f string) bool { return f == finalizer }))
		return released
	case !deleting && !has:
		object.SetFinalizers(append(finalizers, finalizer))
		return added
	}
	return unchanged
}
