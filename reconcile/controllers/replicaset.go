package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// ReplicaSetConfig joins a ReplicaSet controller to its surroundings. All
// fields but the last four must be set.
type ReplicaSetConfig struct {
	ReplicaSets localcache.Cache[*appsv1.ReplicaSet]
	Pods        localcache.Cache[*corev1.Pod]
	// PodsByController is an index of Pods by [ByController].
	PodsByController localcache.Index[types.UID, *corev1.Pod]
	// Status writes the status of ReplicaSets.
	Status StatusUpdater[*appsv1.ReplicaSet]
	Writer interface {
		PodWriter
		Patcher[*corev1.Pod]
	}
	// ReplicaSetsByController is an index of ReplicaSets by [ByController]: of two
	// pods, the one whose node has more pods of the same Deployment goes first.
	// Without it, ReplicaSets are gone through.
	ReplicaSetsByController localcache.Index[types.UID, *appsv1.ReplicaSet]
	// Events may be nil.
	Events Events
	// Workers is how many ReplicaSets are worked on at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// ReplicaSet keeps the number of pods that each ReplicaSet asks for.
type ReplicaSet struct {
	*loop
	config ReplicaSetConfig
	kind   replicaKind
	pods   podControl
	// statuses has the revisions of ReplicaSets written here.
	statuses written
}

// replicaKind is what differs between the kinds that keep a number of pods.
type replicaKind struct {
	schema.GroupVersionKind
	// queue is the name of the controller's queue, text how errors call the kind.
	queue, text string
	// terminating says that the status counts the pods that are being deleted.
	terminating bool
}

var replicaSetKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// NewReplicaSet checks config. It starts nothing.
func NewReplicaSet(config ReplicaSetConfig) (*ReplicaSet, error) {
	err := required("ReplicaSetConfig", "ReplicaSets", config.ReplicaSets, "Pods", config.Pods,
		"PodsByController", config.PodsByController, "Status", config.Status, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	return newReplicaSet(config, replicaKind{GroupVersionKind: replicaSetKind, queue: "replicaset", text: "replica set", terminating: true})
}

// newReplicaSet makes a controller of objects of a kind, which config shows as
// ReplicaSets.
func newReplicaSet(config ReplicaSetConfig, kind replicaKind) (*ReplicaSet, error) {
	if config.Events == nil {
		config.Events = noEvents{}
	}
	c := &ReplicaSet{config: config, kind: kind}
	c.pods = podControl{writer: config.Writer, events: config.Events, kind: kind.GroupVersionKind}
	var err error
	if c.loop, err = newLoop(kind.queue, config.Workers, config.Log, reconcile.Backoff{}, c.reconcile); err != nil {
		return nil, err
	}
	watch(c.loop, config.ReplicaSets, enqueueObject[*appsv1.ReplicaSet](c.loop))
	watch(c.loop, config.Pods, c.podChanged)
	return c, nil
}

// podChanged enqueues the ReplicaSets that control the pod or may adopt it.
func (c *ReplicaSet) podChanged(old, new *corev1.Pod) {
	enqueueController[*corev1.Pod](c.loop, c.kind.Group, c.kind.Kind)(old, new)
	if new == nil || metav1.GetControllerOfNoCopy(new) != nil || new.DeletionTimestamp != nil {
		return
	}
	if old != nil && metav1.GetControllerOfNoCopy(old) == nil && equality.Semantic.DeepEqual(old.Labels, new.Labels) {
		return // an orphan that nobody took before
	}
	for rs := range c.config.ReplicaSets.All() {
		if rs.Namespace != new.Namespace {
			continue
		}
		if selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector); err == nil && selector.Matches(labels.Set(new.Labels)) {
			c.Enqueue(key(rs))
		}
	}
}

func (c *ReplicaSet) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	if err := c.pods.written.wait(ctx, key, c.config.Pods.WaitFor); err != nil {
		return reconcile.Result{}, err
	}
	if err := c.statuses.wait(ctx, key, c.config.ReplicaSets.WaitFor); err != nil {
		return reconcile.Result{}, err
	}
	rs, ok := c.config.ReplicaSets.Get(key)
	if !ok {
		c.pods.drop(key)
		return reconcile.Result{}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("selector of %s: %w", key, err)
	}
	owned := slices.Collect(c.config.PodsByController.Get(rs.UID))
	orphans := slices.DeleteFunc(slices.Collect(c.config.PodsByController.Get(Orphans(rs.Namespace))), ended)
	claimed := planClaims(rs, selector, owned, orphans)
	claimed.release = slices.DeleteFunc(claimed.release, func(pod *corev1.Pod) bool {
		return ended(pod) || pod.DeletionTimestamp != nil // they count for nobody any more
	})
	changed, err := claim(ctx, claimed, rs, c.kind.GroupVersionKind, Patcher[*corev1.Pod](c.config.Writer),
		func(ctx context.Context) error { return c.confirm(ctx, rs) },
		func(revision string) { c.pods.written.add(key, revision) })
	if err != nil || changed {
		return reconcile.Result{Requeue: changed}, err
	}
	staying, retry, going := c.pods.observe(key, claimed.mine)
	plan := planReplicaSet(rs, staying, len(retry) > 0, func() []*corev1.Pod { return c.related(rs) }, time.Now())
	actErr := c.act(ctx, rs, owned, retry, plan)

	status, again := replicaSetStatus(rs, staying, append(retry, going...), actErr, time.Now())
	// What may exist counts as existing; how many are ready is not affected.
	status.Replicas += int32(len(c.pods.tried.names(key)))
	if !c.kind.terminating {
		status.TerminatingReplicas = nil
	}
	if err := c.updateStatus(ctx, rs, status); err != nil && actErr == nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{Requeue: plan.more, After: again}, actErr
}

// related lists the pods of the ReplicaSets with the same controller.
func (c *ReplicaSet) related(rs *appsv1.ReplicaSet) (pods []*corev1.Pod) {
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

// confirm fails unless rs is the newest state there is.
func (c *ReplicaSet) confirm(ctx context.Context, rs *appsv1.ReplicaSet) error {
	// The API refuses a status for any other resource version; an unchanged one
	// it accepts without a write.
	_, err := c.config.Status.UpdateStatus(ctx, rs.DeepCopy())
	if err != nil {
		return fmt.Errorf("confirm %s %s: %w", c.kind.text, key(rs), err)
	}
	return nil
}

func (c *ReplicaSet) act(ctx context.Context, rs *appsv1.ReplicaSet, owned, retry []*corev1.Pod, plan replicaSetPlan) error {
	if len(retry) > 0 {
		return c.pods.delete(ctx, rs, retry)
	}
	if plan.create < len(c.pods.tried.names(key(rs))) {
		// Pods that may exist and are not wanted any more.
		if err := c.pods.probe(ctx, rs); err != nil {
			return err
		}
	}
	if len(plan.delete) > 0 {
		return c.pods.delete(ctx, rs, plan.delete)
	}
	if plan.create == 0 {
		return nil
	}
	return c.pods.create(ctx, rs, &rs.Spec.Template, plan.create, owned, c.config.Pods.Get)
}

func (c *ReplicaSet) updateStatus(ctx context.Context, rs *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) error {
	if equality.Semantic.DeepEqual(rs.Status, status) {
		return nil
	}
	update := rs.DeepCopy()
	update.Status = status
	updated, err := c.config.Status.UpdateStatus(ctx, update)
	switch {
	case apierrors.IsNotFound(err):
		return errStale // that it is gone is on its way to the copy
	case err != nil:
		return fmt.Errorf("status of %s %s: %w", c.kind.text, key(rs), err)
	}
	c.statuses.add(key(rs), updated.ResourceVersion)
	return nil
}

// replicaSetPlan is what to do about the pods of a ReplicaSet.
type replicaSetPlan struct {
	create int
	delete []*corev1.Pod
	// more is set when that is not all.
	more bool
}

// planReplicaSet compares the pods that are not about to go with what rs asks
// for. While deletions are unsettled it plans nothing. Only what is deleted
// depends on the pods that are related and on the time.
func planReplicaSet(rs *appsv1.ReplicaSet, pods []*corev1.Pod, unsettled bool, related func() []*corev1.Pod, now time.Time) replicaSetPlan {
	if unsettled {
		return replicaSetPlan{more: true}
	}
	if rs.DeletionTimestamp != nil {
		return replicaSetPlan{}
	}
	active := slices.DeleteFunc(slices.Clone(pods), ended)
	missing := int(value(rs.Spec.Replicas, 1)) - len(active)
	if missing >= 0 {
		return replicaSetPlan{create: min(missing, burst), more: missing > burst}
	}
	if -missing < len(active) {
		rankReplicas(active, related(), now)
	}
	return replicaSetPlan{delete: active[:min(-missing, burst)], more: -missing > burst}
}

// replicaSetStatus counts pods. Those in going, of which the copy may not show
// that they are, count as existing but not as ready: whoever relies on the
// numbers must neither exceed the first nor fall below the second. again tells
// when a ready pod becomes available; zero if none is about to.
func replicaSetStatus(rs *appsv1.ReplicaSet, staying, going []*corev1.Pod, failure error, now time.Time) (status appsv1.ReplicaSetStatus, again time.Duration) {
	var leaving int32
	status = appsv1.ReplicaSetStatus{
		ObservedGeneration:  rs.Generation,
		TerminatingReplicas: &leaving,
		Conditions:          rs.Status.Conditions,
	}
	template := labels.Set(rs.Spec.Template.Labels).AsSelectorPreValidated()
	for i, pod := range slices.Concat(staying, going) {
		if ended(pod) {
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
		if i >= len(staying) || !ready(pod) {
			continue
		}
		status.ReadyReplicas++
		if wait := availableIn(pod, rs.Spec.MinReadySeconds, now); wait <= 0 {
			status.AvailableReplicas++
		} else if again == 0 || wait < again {
			again = wait
		}
	}
	status.Conditions = replicaFailure(status.Conditions, value(rs.Spec.Replicas, 1)-status.Replicas, failure, now)
	return status, again
}

// replicaFailure sets or removes the ReplicaFailure condition. missing pods are
// less than nothing when there are too many.
func replicaFailure(conditions []appsv1.ReplicaSetCondition, missing int32, failure error, now time.Time) []appsv1.ReplicaSetCondition {
	at := slices.IndexFunc(conditions, func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure })
	failed := failure != nil && !isStale(failure)
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
			Reason: reason, Message: podFailure(failure),
		})
	case !failed && at >= 0:
		return slices.Delete(slices.Clone(conditions), at, at+1)
	}
	return conditions
}

func value[T any](pointer *T, otherwise T) T {
	if pointer == nil {
		return otherwise
	}
	return *pointer
}
