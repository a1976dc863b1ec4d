package volume

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/internal/volumeclaim"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The API as the controllers of this package use it.
type (
	// ClaimClient reads and writes claims.
	ClaimClient interface {
		controllers.Getter[*corev1.PersistentVolumeClaim]
		controllers.Updater[*corev1.PersistentVolumeClaim]
		controllers.StatusUpdater[*corev1.PersistentVolumeClaim]
	}
	// Client reads and writes persistent volumes.
	Client interface {
		controllers.Getter[*corev1.PersistentVolume]
		controllers.Updater[*corev1.PersistentVolume]
		controllers.StatusUpdater[*corev1.PersistentVolume]
	}
)

// BinderConfig configures a Binder. The caches and clients are required.
type BinderConfig struct {
	Claims      localcache.Cache[*corev1.PersistentVolumeClaim]
	Volumes     localcache.Cache[*corev1.PersistentVolume]
	Classes     localcache.Cache[*storagev1.StorageClass]
	PodsByClaim localcache.Index[string, *corev1.Pod] // see [ByClaim]
	// ClaimClient and VolumeClient write, and read what a cache may not show yet.
	ClaimClient  ClaimClient
	VolumeClient Client
	// Resync is the interval at which claims that wait are looked at again, with an event about the
	// reason. Zero means 15 s, as in Kubernetes.
	Resync time.Duration
	// Workers is the number of claims and volumes processed concurrently. Zero means 5.
	Workers int
	// Events receives the events about claims and volumes. Nil means none.
	Events controllers.Events
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Binder binds claims to volumes, and releases the volumes of claims that are gone. A claim gets the
// smallest volume that satisfies it, or the one that is reserved for it; a claim whose class waits
// for a consumer is bound by the scheduler. What both sides say is written to the volume first: its
// resource version lets one of two claims win. A volume of a deleted claim is never bound again.
//
// The contents of volumes are never touched: with the policy Delete or Recycle, a released volume is
// Failed unless a provisioner outside made it.
type Binder struct {
	*reconcile.Controller[string]
	config BinderConfig
}

// NewBinder returns a controller, or an error if config lacks a required field. It starts nothing.
func NewBinder(config BinderConfig) (*Binder, error) {
	err := loop.Required("volume: BinderConfig", "Claims", config.Claims, "Volumes", config.Volumes, "Classes", config.Classes,
		"PodsByClaim", config.PodsByClaim, "ClaimClient", config.ClaimClient, "VolumeClient", config.VolumeClient)
	if err != nil {
		return nil, err
	}
	if config.Resync == 0 {
		config.Resync = 15 * time.Second
	}
	if config.Events == nil {
		config.Events = controllers.NoEvents{}
	}
	c := &Binder{config: config}
	if c.Controller, err = loop.New(loop.Config{Name: "persistentvolume_binder", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.WatchFunc(c.Controller, config.Claims, c.claimChanged)
	reconcile.WatchFunc(c.Controller, config.Volumes, c.volumeChanged)
	reconcile.WatchFunc(c.Controller, config.Classes, func(_, _ *storagev1.StorageClass) { c.enqueueWaiting() })
	return c, nil
}

// ByClaim is the key function of an index of pods by the claims that they use, as namespace/name.
func ByClaim(pod *corev1.Pod) (keys []string) {
	for u := range volumeclaim.Uses(pod) {
		keys = append(keys, localcache.Key(pod.Namespace, u.Claim))
	}
	return keys
}

func (c *Binder) claimChanged(old, new *corev1.PersistentVolumeClaim) {
	claim := new
	if new == nil {
		claim = old
		// The volume that was about to be bound to it may be known by its own side alone.
		for v := range c.config.Volumes.All() {
			if ref := v.Spec.ClaimRef; ref != nil && ref.UID == claim.UID {
				c.Enqueue(v.Name)
			}
		}
	} else {
		c.Enqueue(localcache.KeyOf(new))
	}
	if claim.Spec.VolumeName != "" {
		c.Enqueue(claim.Spec.VolumeName)
	}
}

func (c *Binder) volumeChanged(old, new *corev1.PersistentVolume) {
	for _, v := range []*corev1.PersistentVolume{old, new} {
		if v != nil && v.Spec.ClaimRef != nil {
			c.Enqueue(localcache.Key(v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name))
		}
	}
	if new != nil {
		c.Enqueue(new.Name)
	}
	// A volume that has become free may be what a claim waits for.
	if new != nil && new.Status.Phase == corev1.VolumeAvailable || new == nil {
		c.enqueueWaiting()
	}
}

// enqueueWaiting enqueues all claims that are not bound.
func (c *Binder) enqueueWaiting() {
	for claim := range c.config.Claims.All() {
		if !volumeclaim.IsBound(claim) {
			c.Enqueue(localcache.KeyOf(claim))
		}
	}
}

// reconcile works on a claim, whose key has a namespace, or on a volume.
func (c *Binder) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	if strings.Contains(key, "/") {
		claim, ok := c.config.Claims.Get(key)
		if !ok {
			return reconcile.Result{}, nil
		}
		waits, err := c.syncClaim(ctx, claim)
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("claim %s: %w", key, err)
		}
		if waits {
			return reconcile.Result{After: c.config.Resync}, nil
		}
		return reconcile.Result{}, nil
	}
	if v, ok := c.config.Volumes.Get(key); ok {
		if err := c.syncVolume(ctx, v); err != nil {
			return reconcile.Result{}, fmt.Errorf("persistent volume %s: %w", key, err)
		}
	}
	return reconcile.Result{}, nil
}

// bind writes both sides of a binding, the volume first. It does what is left to do.
func (c *Binder) bind(ctx context.Context, v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	bound, changed := volumeclaim.Bind(v, claim)
	if changed {
		var err error
		if bound, err = c.config.VolumeClient.Update(ctx, bound); err != nil {
			return fmt.Errorf("bind volume %s: %w", v.Name, err)
		}
	}
	if _, err := c.setPhase(ctx, bound, corev1.VolumeBound); err != nil {
		return err
	}
	next := claim.DeepCopy()
	if next.Spec.VolumeName != v.Name {
		next.Spec.VolumeName = v.Name
		annotate(next, volumeclaim.BoundByController, "yes")
	}
	if annotate(next, volumeclaim.BindCompleted, "yes") {
		var err error
		if next, err = c.config.ClaimClient.Update(ctx, next); err != nil {
			return fmt.Errorf("bind claim: %w", err)
		}
	}
	_, err := c.setClaimStatus(ctx, next, corev1.ClaimBound, bound)
	return err
}

// annotate sets an annotation that is missing, and reports whether it was.
func annotate(claim *corev1.PersistentVolumeClaim, key, value string) bool {
	if _, ok := claim.Annotations[key]; ok {
		return false
	}
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[key] = value
	return true
}

// The kinds of the objects that events are about.
var (
	claimKind  = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	volumeKind = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolume"}
	podKind    = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
)

func (c *Binder) claimEvent(claim *corev1.PersistentVolumeClaim, kind, reason, message string) {
	c.config.Events.Event(loop.Reference(claim, claimKind), kind, reason, message)
}

func (c *Binder) volumeEvent(v *corev1.PersistentVolume, kind, reason, message string) {
	c.config.Events.Event(loop.Reference(v, volumeKind), kind, reason, message)
}

// ignoreNotFound returns no error and the zero value for an object that does not exist.
func ignoreNotFound[T any](object *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return object, nil
}
