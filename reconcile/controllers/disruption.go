package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// DisruptionConfig joins a Disruption controller to its surroundings. All fields
// up to PodStatus must be set.
type DisruptionConfig struct {
	Budgets     localcache.Cache[*policyv1.PodDisruptionBudget]
	Pods        localcache.Cache[*corev1.Pod]
	Deployments localcache.Cache[*appsv1.Deployment]
	ReplicaSets localcache.Cache[*appsv1.ReplicaSet]
	// ReplicationControllers are those of the core group.
	ReplicationControllers localcache.Cache[*corev1.ReplicationController]
	// BudgetsByNamespace and PodsByNamespace are indexes by [ByNamespace].
	BudgetsByNamespace localcache.Index[string, *policyv1.PodDisruptionBudget]
	PodsByNamespace    localcache.Index[string, *corev1.Pod]
	// Status writes the status of budgets, PodStatus the conditions of pods.
	Status    StatusUpdater[*policyv1.PodDisruptionBudget]
	PodStatus Patcher[*corev1.Pod]
	// Scales reads how many pods the controllers of all other kinds want. Without
	// it, budgets over their pods fail to sync.
	Scales ScaleReader
	// Events may be nil.
	Events Events
	// Workers is how many budgets are worked on at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// Disruption computes the status of PodDisruptionBudgets, which the eviction
// subresource of pods goes by. It also withdraws the condition DisruptionTarget
// from pods that were not deleted within two minutes of it.
//
// The eviction subresource takes from disruptionsAllowed and writes the pod into
// disruptedPods, in one update guarded by the resource version. Until the local
// copy shows that such a pod is going, the pod does not count as healthy, so that
// an old copy never allows a disruption twice.
type Disruption struct {
	*loop
	// conditions withdraws conditions of pods.
	conditions *loop
	config     DisruptionConfig
	// statuses has the revisions of budgets written here.
	statuses written
}

var (
	budgetKind = policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")
	podKind    = corev1.SchemeGroupVersion.WithKind("Pod")
)

// NewDisruption checks config. It starts nothing.
func NewDisruption(config DisruptionConfig) (*Disruption, error) {
	err := required("DisruptionConfig", "Budgets", config.Budgets, "Pods", config.Pods, "Deployments", config.Deployments,
		"ReplicaSets", config.ReplicaSets, "ReplicationControllers", config.ReplicationControllers,
		"BudgetsByNamespace", config.BudgetsByNamespace, "PodsByNamespace", config.PodsByNamespace,
		"Status", config.Status, "PodStatus", config.PodStatus)
	if err != nil {
		return nil, err
	}
	if config.Events == nil {
		config.Events = noEvents{}
	}
	c := &Disruption{config: config}
	if c.loop, err = newLoop("disruption", config.Workers, config.Log, reconcile.Backoff{}, c.reconcile); err != nil {
		return nil, err
	}
	if c.conditions, err = newLoop("stale_pod_disruption", config.Workers, config.Log, reconcile.Backoff{}, c.withdraw); err != nil {
		return nil, err
	}
	watch(c.loop, config.Budgets, enqueueObject[*policyv1.PodDisruptionBudget](c.loop))
	watch(c.loop, config.Pods, c.podChanged)
	watch(c.conditions, config.Pods, c.conditionChanged)
	watchScales(c, config.Deployments, func(d *appsv1.Deployment) int32 { return value(d.Spec.Replicas, 1) })
	watchScales(c, config.ReplicaSets, func(rs *appsv1.ReplicaSet) int32 {
		if controlledByDeployment(rs) {
			return 0 // the Deployment's counts
		}
		return value(rs.Spec.Replicas, 1)
	})
	watchScales(c, config.ReplicationControllers, func(rc *corev1.ReplicationController) int32 { return value(rc.Spec.Replicas, 1) })
	return c, nil
}

// Run works until ctx is done and returns nil.
func (c *Disruption) Run(ctx context.Context) error { return Run(ctx, c.loop, c.conditions) }

// Observe reports what both queues of the controller do to m.
func (c *Disruption) Observe(m Metrics) error {
	return errors.Join(c.loop.Observe(m), c.conditions.Observe(m))
}

// watchScales enqueues the budgets of a namespace when the number of pods that a
// controller in it wants changes: pods need not change with it.
func watchScales[T interface {
	comparable
	metav1.Object
}](c *Disruption, cache localcache.Cache[T], replicas func(T) int32) {
	var none T
	watch(c.loop, cache, func(old, new T) {
		if old != none && new != none && old.GetUID() == new.GetUID() && replicas(old) == replicas(new) {
			return
		}
		if new == none {
			new = old
		}
		for b := range c.config.BudgetsByNamespace.Get(new.GetNamespace()) {
			c.Enqueue(key(b))
		}
	})
}

// podState is all that a budget's status depends on in a pod.
type podState struct {
	ready, deleting bool
	controller      string
}

func podStateOf(pod *corev1.Pod) podState {
	s := podState{ready: ready(pod), deleting: pod.DeletionTimestamp != nil}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		s.controller = string(owner.UID)
	}
	return s
}

// podChanged enqueues the budgets that select the pod, or did.
func (c *Disruption) podChanged(old, new *corev1.Pod) {
	changed := old == nil || new == nil || old.UID != new.UID || podStateOf(old) != podStateOf(new)
	if !changed && maps.Equal(old.Labels, new.Labels) {
		return // most changes of pods are of no interest here
	}
	var matching []string
	for b := range c.config.BudgetsByNamespace.Get(nonZero(new, old).Namespace) {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			continue // its own sync says so
		}
		was := old != nil && selector.Matches(labels.Set(old.Labels))
		is := new != nil && selector.Matches(labels.Set(new.Labels))
		if was != is || is && changed {
			c.Enqueue(key(b))
		}
		if is {
			matching = append(matching, b.Name)
		}
	}
	if len(matching) > 1 && changed && new.DeletionTimestamp == nil {
		slices.Sort(matching)
		c.config.Events.Event(about(new, podKind), corev1.EventTypeWarning, "MultiplePodDisruptionBudgets",
			fmt.Sprintf("Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", new.Namespace, new.Name, matching[0]))
	}
}

func (c *Disruption) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	if err := c.statuses.wait(ctx, key, c.config.Budgets.WaitFor); err != nil {
		return reconcile.Result{}, err
	}
	b, ok := c.config.Budgets.Get(key)
	if !ok {
		return reconcile.Result{}, nil
	}
	pods, count, err := c.look(ctx, b)
	if err != nil {
		if isStale(err) || ctx.Err() != nil {
			return reconcile.Result{}, err
		}
		// Whatever was allowed before may be too much now.
		return reconcile.Result{}, errors.Join(fmt.Errorf("budget %s: %w", key, err), c.updateStatus(ctx, b, failedBudget(b, err)))
	}
	plan := planBudget(b, pods, count, time.Now())
	for _, pod := range plan.overdue {
		c.config.Events.Event(about(pod, podKind), corev1.EventTypeWarning, "NotDeleted",
			fmt.Sprintf("Pod was expected by PDB %s to be deleted but it wasn't", key))
	}
	return reconcile.Result{After: plan.again}, c.updateStatus(ctx, b, plan.status)
}

// look returns the pods that b selects and how many of them there should be. It
// reports what is wrong with them as events.
func (c *Disruption) look(ctx context.Context, b *policyv1.PodDisruptionBudget) ([]*corev1.Pod, budgetCount, error) {
	event := func(kind, reason, message string) { c.config.Events.Event(about(b, budgetKind), kind, reason, message) }
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		event(corev1.EventTypeWarning, "NoPods", fmt.Sprintf("Failed to get pods: %v", err))
		return nil, budgetCount{}, err
	}
	var pods []*corev1.Pod
	for pod := range c.config.PodsByNamespace.Get(b.Namespace) {
		if selector.Matches(labels.Set(pod.Labels)) {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	if len(pods) == 0 {
		event(corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	count, unmanaged, err := countBudget(b, pods, func() (int32, bool, error) { return c.scale(ctx, pods) })
	if err != nil {
		event(corev1.EventTypeWarning, "CalculateExpectedPodCountFailed", fmt.Sprintf("Failed to calculate the number of expected pods: %v", err))
		return nil, budgetCount{}, err
	}
	if unmanaged {
		event(corev1.EventTypeWarning, "UnmanagedPods", fmt.Sprintf("Pods selected by this PodDisruptionBudget (selector: %v) were found to be unmanaged. "+
			"As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "+
			"To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.", b.Spec.Selector))
	}
	return pods, count, nil
}

func (c *Disruption) updateStatus(ctx context.Context, b *policyv1.PodDisruptionBudget, status policyv1.PodDisruptionBudgetStatus) error {
	if equality.Semantic.DeepEqual(b.Status, status) {
		return nil
	}
	update := b.DeepCopy()
	update.Status = status
	updated, err := c.config.Status.UpdateStatus(ctx, update)
	switch {
	case apierrors.IsNotFound(err):
		return nil // its deletion is on its way to the copy
	case err != nil:
		return fmt.Errorf("status of budget %s: %w", key(b), err)
	}
	c.statuses.add(key(b), updated.ResourceVersion)
	return nil
}
