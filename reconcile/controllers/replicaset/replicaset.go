package replicaset

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/internal/selector"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Config configures a Controller. ReplicaSets, Pods, PodsByController, Writer and PodWriter are
// required.
type Config struct {
	ReplicaSets localcache.Cache[*appsv1.ReplicaSet]
	Pods        localcache.Cache[*corev1.Pod]
	// PodsByController is an index of Pods by [owner.ByController].
	PodsByController localcache.Index[types.UID, *corev1.Pod]
	// Writer writes the status of ReplicaSets.
	Writer    controllers.StatusUpdater[*appsv1.ReplicaSet]
	PodWriter interface {
		owner.PodWriter
		controllers.Patcher[*corev1.Pod]
	}
	// ReplicaSetsByController is an index of ReplicaSets by [owner.ByController]. Of two pods, the
	// one whose node has more pods of the same Deployment is deleted first. If the index is nil,
	// the controller iterates over all ReplicaSets instead.
	ReplicaSetsByController localcache.Index[types.UID, *appsv1.ReplicaSet]
	// Events records Event objects. Nil discards them.
	Events controllers.Events
	// Workers is the number of ReplicaSets processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Controller keeps the number of pods that each ReplicaSet requests.
type Controller struct {
	*reconcile.Controller[string]
	config Config
	kind   replicaKind
	pods   owner.PodControl
	// ledger has the writes of pods and ReplicaSets.
	ledger owner.Ledger
}

// replicaKind holds the differences between the kinds that keep a number of pods.
type replicaKind struct {
	schema.GroupVersionKind
	// queue is the name of the controller's queue, text how errors call the kind.
	queue, text string
	// terminating says that the status counts the pods that are being deleted.
	terminating bool
}

var replicaSetKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// New returns a controller, or an error if config lacks a required field. It starts nothing.
func New(config Config) (*Controller, error) {
	err := loop.Required("replicaset: Config", "ReplicaSets", config.ReplicaSets, "Pods", config.Pods,
		"PodsByController", config.PodsByController, "Writer", config.Writer, "PodWriter", config.PodWriter)
	if err != nil {
		return nil, err
	}
	return newReplicaSet(config, replicaKind{GroupVersionKind: replicaSetKind, queue: "replicaset", text: "replica set", terminating: true})
}

// newReplicaSet returns a controller of objects of a kind, which config shows as ReplicaSets.
func newReplicaSet(config Config, kind replicaKind) (*Controller, error) {
	if config.Events == nil {
		config.Events = controllers.NoEvents{}
	}
	c := &Controller{config: config, kind: kind}
	c.pods = owner.PodControl{Writer: config.PodWriter, Events: config.Events, Kind: kind.GroupVersionKind, Cache: config.Pods, Ledger: &c.ledger}
	var err error
	if c.Controller, err = loop.New(loop.Config{Name: kind.queue, Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.Watch(c.Controller, config.ReplicaSets, reconcile.Itself(localcache.KeyOf[*appsv1.ReplicaSet]))
	reconcile.WatchFunc(c.Controller, config.Pods, c.podChanged)
	return c, nil
}

// podChanged enqueues the ReplicaSets that control the pod or may adopt it.
func (c *Controller) podChanged(old, new *corev1.Pod) {
	for key := range owner.Controllers[*corev1.Pod](c.kind.Group, c.kind.Kind)(old, new) {
		c.Enqueue(key)
	}
	if new == nil || owner.SameOrphan(old, new) {
		return
	}
	for key := range owner.Adopters(new, c.config.ReplicaSets.All(), selectorOf) {
		c.Enqueue(key)
	}
}

func selectorOf(rs *appsv1.ReplicaSet) *metav1.LabelSelector { return rs.Spec.Selector }

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	if err := c.ledger.Wait(ctx, key); err != nil {
		return reconcile.Result{}, err
	}
	rs, ok := c.config.ReplicaSets.Get(key)
	if !ok {
		c.pods.Drop(key)
		return reconcile.Result{}, nil
	}
	wanted, err := selector.Of(rs.Spec.Selector)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("selector of %s: %w", key, err)
	}
	owned := slices.Collect(c.config.PodsByController.Get(rs.UID))
	orphans := slices.DeleteFunc(slices.Collect(c.config.PodsByController.Get(owner.Orphans(rs.Namespace))), podstatus.Ended)
	claimed := owner.PlanClaims(rs, wanted, owned, orphans)
	claimed.Release = slices.DeleteFunc(claimed.Release, func(pod *corev1.Pod) bool {
		return podstatus.Ended(pod) || pod.DeletionTimestamp != nil // they no longer count for any owner
	})
	changed, err := owner.Claim(ctx, claimed, rs, c.kind.GroupVersionKind, controllers.Patcher[*corev1.Pod](c.config.PodWriter),
		func(ctx context.Context) error { return c.confirm(ctx, rs) },
		func(revision string) { c.ledger.Add(key, c.config.Pods, revision) })
	if err != nil || changed {
		return reconcile.Result{Requeue: changed}, err
	}
	staying, retry, going := c.pods.Observe(key, claimed.Mine)
	plan := planReplicaSet(rs, staying, len(retry) > 0, func() []*corev1.Pod { return c.related(rs) }, time.Now())
	actErr := c.act(ctx, rs, owned, retry, plan)

	status, again := replicaSetStatus(rs, staying, append(retry, going...), actErr, time.Now())
	// A pod that may exist counts as existing, but not as ready.
	status.Replicas += int32(len(c.pods.Unanswered(key)))
	if !c.kind.terminating {
		status.TerminatingReplicas = nil
	}
	if err := c.updateStatus(ctx, rs, status); err != nil && actErr == nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{Requeue: plan.more, After: again}, actErr
}

// related returns the pods of the ReplicaSets with the same controller.
func (c *Controller) related(rs *appsv1.ReplicaSet) (pods []*corev1.Pod) {
	sets := func(yield func(*appsv1.ReplicaSet) bool) { yield(rs) }
	if owner := metav1.GetControllerOfNoCopy(rs); owner != nil {
		sets = func(yield func(*appsv1.ReplicaSet) bool) {
			for other := range c.config.ReplicaSets.All() {
				if o := metav1.GetControllerOfNoCopy(other); o != nil && o.UID == owner.UID && !yield(other) {
					return
				}
			}
		}
		if c.config.ReplicaSetsByController != nil {
			sets = c.config.ReplicaSetsByController.Get(owner.UID)
		}
	}
	for other := range sets {
		pods = slices.AppendSeq(pods, c.config.PodsByController.Get(other.UID))
	}
	return pods
}

// confirm returns an error unless rs is the newest version.
func (c *Controller) confirm(ctx context.Context, rs *appsv1.ReplicaSet) error {
	// The API refuses a status with any other resource version, and accepts an unchanged one
	// without a write.
	_, err := c.config.Writer.UpdateStatus(ctx, rs.DeepCopy())
	if err != nil {
		return fmt.Errorf("confirm %s %s: %w", c.kind.text, localcache.KeyOf(rs), err)
	}
	return nil
}

func (c *Controller) act(ctx context.Context, rs *appsv1.ReplicaSet, owned, retry []*corev1.Pod, plan replicaSetPlan) error {
	if len(retry) > 0 {
		return c.pods.Delete(ctx, rs, retry)
	}
	if plan.create < len(c.pods.Unanswered(localcache.KeyOf(rs))) {
		// Delete pods that may exist and are no longer wanted.
		if err := c.pods.Probe(ctx, rs); err != nil {
			return err
		}
	}
	if len(plan.delete) > 0 {
		return c.pods.Delete(ctx, rs, plan.delete)
	}
	if plan.create == 0 {
		return nil
	}
	return c.pods.Create(ctx, rs, &rs.Spec.Template, plan.create, owned)
}

func (c *Controller) updateStatus(ctx context.Context, rs *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) error {
	if equality.Semantic.DeepEqual(rs.Status, status) {
		return nil
	}
	update := rs.DeepCopy()
	update.Status = status
	updated, err := c.config.Writer.UpdateStatus(ctx, update)
	switch {
	case apierrors.IsNotFound(err):
		return loop.ErrStale // that it is gone is on its way to the copy
	case err != nil:
		return fmt.Errorf("status of %s %s: %w", c.kind.text, localcache.KeyOf(rs), err)
	}
	c.ledger.Add(localcache.KeyOf(rs), c.config.ReplicaSets, updated.ResourceVersion)
	return nil
}

// replicaSetPlan is the plan for the pods of a ReplicaSet.
type replicaSetPlan struct {
	create int
	delete []*corev1.Pod
	// more is set if the plan is incomplete.
	more bool
}

// planReplicaSet compares the pods that are not being deleted with the number that rs requests.
// While deletions are unsettled it plans nothing. The related pods and the time only influence
// which pods are deleted.
func planReplicaSet(rs *appsv1.ReplicaSet, pods []*corev1.Pod, unsettled bool, related func() []*corev1.Pod, now time.Time) replicaSetPlan {
	if unsettled {
		return replicaSetPlan{more: true}
	}
	if rs.DeletionTimestamp != nil {
		return replicaSetPlan{}
	}
	active := slices.DeleteFunc(slices.Clone(pods), podstatus.Ended)
	missing := int(optional.Value(rs.Spec.Replicas, 1)) - len(active)
	if missing >= 0 {
		return replicaSetPlan{create: min(missing, owner.Burst), more: missing > owner.Burst}
	}
	if -missing < len(active) {
		podstatus.RankReplicas(active, related(), now)
	}
	return replicaSetPlan{delete: active[:min(-missing, owner.Burst)], more: -missing > owner.Burst}
}

// replicaSetStatus counts pods. Those in going, which the cache may not show as being deleted,
// count as existing but not as ready: a Deployment that relies on the numbers must neither exceed
// the first nor fall below the second. again is the time until a ready pod becomes available; zero
// if none is about to.
func replicaSetStatus(rs *appsv1.ReplicaSet, staying, going []*corev1.Pod, failure error, now time.Time) (status appsv1.ReplicaSetStatus, again time.Duration) {
	var leaving int32
	status = appsv1.ReplicaSetStatus{
		ObservedGeneration:  rs.Generation,
		TerminatingReplicas: &leaving,
		Conditions:          rs.Status.Conditions,
	}
	template := labels.Set(rs.Spec.Template.Labels).AsSelectorPreValidated()
	for i, pod := range slices.Concat(staying, going) {
		if podstatus.Ended(pod) {
			continue
		}
		if pod.DeletionTimestamp != nil {
			leaving++
			continue
		}
		status.Replicas++
		if template.Matches(labels.Set(pod.Labels)) {
			status.FullyLabeledReplicas++
		}
		if i >= len(staying) || !podstatus.Ready(pod) {
			continue
		}
		status.ReadyReplicas++
		if wait := podstatus.AvailableIn(pod, rs.Spec.MinReadySeconds, now); wait <= 0 {
			status.AvailableReplicas++
		} else if again == 0 || wait < again {
			again = wait
		}
	}
	status.Conditions = replicaFailure(status.Conditions, optional.Value(rs.Spec.Replicas, 1)-status.Replicas, failure, now)
	return status, again
}

// replicaFailure sets or removes the ReplicaFailure condition. missing is negative if there are too
// many pods.
func replicaFailure(conditions []appsv1.ReplicaSetCondition, missing int32, failure error, now time.Time) []appsv1.ReplicaSetCondition {
	at := slices.IndexFunc(conditions, func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure })
	failed := failure != nil && !loop.IsStale(failure)
	switch {
	case failed && at < 0:
		reason := ""
		if missing > 0 {
			reason = "FailedCreate"
		} else if missing < 0 {
			reason = "FailedDelete"
		}
		return append(slices.Clone(conditions), appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
			Reason: reason, Message: owner.PodFailure(failure),
		})
	case !failed && at >= 0:
		return slices.Delete(slices.Clone(conditions), at, at+1)
	}
	return conditions
}
