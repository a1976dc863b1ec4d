package disruption

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Config configures a Controller. All fields before Scales are required.
type Config struct {
	Budgets     localcache.Cache[*policyv1.PodDisruptionBudget]
	Pods        localcache.Cache[*corev1.Pod]
	Deployments localcache.Cache[*appsv1.Deployment]
	ReplicaSets localcache.Cache[*appsv1.ReplicaSet]
	// ReplicationControllers is the cache of core/v1 ReplicationControllers.
	ReplicationControllers localcache.Cache[*corev1.ReplicationController]
	// BudgetsByNamespace and PodsByNamespace are indexes by [controllers.ByNamespace].
	BudgetsByNamespace localcache.Index[string, *policyv1.PodDisruptionBudget]
	PodsByNamespace    localcache.Index[string, *corev1.Pod]
	// Writer writes the status of budgets, PodWriter the conditions of pods.
	Writer    controllers.StatusUpdater[*policyv1.PodDisruptionBudget]
	PodWriter controllers.Patcher[*corev1.Pod]
	// Scales reads the number of replicas of controllers of other kinds. If it is nil, budgets for
	// their pods fail.
	Scales ScaleReader
	// Events records Event objects. Nil discards them.
	Events controllers.Events
	// Workers is the number of budgets processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Controller computes the status of PodDisruptionBudgets, which the eviction subresource of pods
// enforces. It also withdraws the condition DisruptionTarget from pods that were not deleted within
// two minutes of it.
//
// The eviction subresource decrements disruptionsAllowed and writes the pod into disruptedPods in
// one update, which is refused if the resource version has changed. Until the cache shows that such
// a pod is being deleted, the pod does not count as healthy, so that a stale cache never allows a
// disruption twice.
type Controller struct {
	*reconcile.Controller[string]
	// conditions withdraws conditions of pods.
	conditions *reconcile.Controller[string]
	config     Config
	// ledger has the writes of budgets.
	ledger owner.Ledger
}

var (
	budgetKind                = policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")
	podKind                   = corev1.SchemeGroupVersion.WithKind("Pod")
	replicationControllerKind = corev1.SchemeGroupVersion.WithKind("ReplicationController")
)

// New returns a controller, or an error if config lacks a required field. It starts nothing.
func New(config Config) (*Controller, error) {
	err := loop.Required("disruption: Config", "Budgets", config.Budgets, "Pods", config.Pods, "Deployments", config.Deployments,
		"ReplicaSets", config.ReplicaSets, "ReplicationControllers", config.ReplicationControllers,
		"BudgetsByNamespace", config.BudgetsByNamespace, "PodsByNamespace", config.PodsByNamespace,
		"Writer", config.Writer, "PodWriter", config.PodWriter)
	if err != nil {
		return nil, err
	}
	if config.Events == nil {
		config.Events = controllers.NoEvents{}
	}
	c := &Controller{config: config}
	if c.Controller, err = loop.New(loop.Config{Name: "disruption", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	if c.conditions, err = loop.New(loop.Config{Name: "stale_pod_disruption", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.withdraw); err != nil {
		return nil, err
	}
	reconcile.Watch(c.Controller, config.Budgets, reconcile.Itself(localcache.KeyOf[*policyv1.PodDisruptionBudget]))
	reconcile.WatchFunc(c.Controller, config.Pods, c.podChanged)
	reconcile.WatchFunc(c.conditions, config.Pods, c.conditionChanged)
	watchScales(c, config.Deployments, func(d *appsv1.Deployment) int32 { return optional.Value(d.Spec.Replicas, 1) })
	watchScales(c, config.ReplicaSets, func(rs *appsv1.ReplicaSet) int32 {
		if controlledByDeployment(rs) {
			return 0 // the Deployment's counts
		}
		return optional.Value(rs.Spec.Replicas, 1)
	})
	watchScales(c, config.ReplicationControllers, func(rc *corev1.ReplicationController) int32 { return optional.Value(rc.Spec.Replicas, 1) })
	return c, nil
}

// Run works until ctx is done and returns nil.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Controller, c.conditions)
}

// watchScales enqueues the budgets of a namespace when the number of replicas of a controller in it
// changes: its pods may not change.
func watchScales[T interface {
	comparable
	metav1.Object
}](c *Controller, cache localcache.Cache[T], replicas func(T) int32) {
	var none T
	reconcile.WatchFunc(c.Controller, cache, func(old, new T) {
		if old != none && new != none && old.GetUID() == new.GetUID() && replicas(old) == replicas(new) {
			return
		}
		if new == none {
			new = old
		}
		for b := range c.config.BudgetsByNamespace.Get(new.GetNamespace()) {
			c.Enqueue(localcache.KeyOf(b))
		}
	})
}

// podState holds the properties of a pod that a budget's status depends on.
type podState struct {
	ready, deleting bool
	controller      string
}

func podStateOf(pod *corev1.Pod) podState {
	s := podState{ready: podstatus.Ready(pod), deleting: pod.DeletionTimestamp != nil}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		s.controller = string(owner.UID)
	}
	return s
}

// podChanged enqueues the budgets that select the old or the new pod.
func (c *Controller) podChanged(old, new *corev1.Pod) {
	changed := old == nil || new == nil || old.UID != new.UID || podStateOf(old) != podStateOf(new)
	if !changed && maps.Equal(old.Labels, new.Labels) {
		return // most changes of pods do not matter to budgets
	}
	var matching []string
	for b := range c.config.BudgetsByNamespace.Get(cmp.Or(new, old).Namespace) {
		wanted, err := selector.Of(b.Spec.Selector)
		if err != nil {
			continue // its own sync says so
		}
		was := old != nil && wanted.Matches(labels.Set(old.Labels))
		is := new != nil && wanted.Matches(labels.Set(new.Labels))
		if was != is || is && changed {
			c.Enqueue(localcache.KeyOf(b))
		}
		if is {
			matching = append(matching, b.Name)
		}
	}
	if len(matching) > 1 && changed && new.DeletionTimestamp == nil {
		slices.Sort(matching)
		c.config.Events.Event(loop.Reference(new, podKind), corev1.EventTypeWarning, "MultiplePodDisruptionBudgets",
			fmt.Sprintf("Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", new.Namespace, new.Name, matching[0]))
	}
}

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	if err := c.ledger.Wait(ctx, key); err != nil {
		return reconcile.Result{}, err
	}
	b, ok := c.config.Budgets.Get(key)
	if !ok {
		return reconcile.Result{}, nil
	}
	pods, count, err := c.look(ctx, b)
	if err != nil {
		if loop.IsStale(err) || ctx.Err() != nil {
			return reconcile.Result{}, err
		}
		// The number that was allowed before may be too large now.
		return reconcile.Result{}, errors.Join(fmt.Errorf("budget %s: %w", key, err), c.updateStatus(ctx, b, failedBudget(b, err)))
	}
	plan := planBudget(b, pods, count, time.Now())
	for _, pod := range plan.overdue {
		c.config.Events.Event(loop.Reference(pod, podKind), corev1.EventTypeWarning, "NotDeleted",
			fmt.Sprintf("Pod was expected by PDB %s to be deleted but it wasn't", key))
	}
	return reconcile.Result{After: plan.again}, c.updateStatus(ctx, b, plan.status)
}

// look returns the pods that b selects and how many are expected. It records Event objects about
// problems.
func (c *Controller) look(ctx context.Context, b *policyv1.PodDisruptionBudget) ([]*corev1.Pod, budgetCount, error) {
	event := func(kind, reason, message string) {
		c.config.Events.Event(loop.Reference(b, budgetKind), kind, reason, message)
	}
	wanted, err := selector.Of(b.Spec.Selector)
	if err != nil {
		event(corev1.EventTypeWarning, "NoPods", fmt.Sprintf("Failed to get pods: %v", err))
		return nil, budgetCount{}, err
	}
	var pods []*corev1.Pod
	for pod := range c.config.PodsByNamespace.Get(b.Namespace) {
		if wanted.Matches(labels.Set(pod.Labels)) {
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

func (c *Controller) updateStatus(ctx context.Context, b *policyv1.PodDisruptionBudget, status policyv1.PodDisruptionBudgetStatus) error {
	if equality.Semantic.DeepEqual(b.Status, status) {
		return nil
	}
	update := b.DeepCopy()
	update.Status = status
	updated, err := c.config.Writer.UpdateStatus(ctx, update)
	switch {
	case apierrors.IsNotFound(err):
		return nil // its deletion is on its way to the copy
	case err != nil:
		return fmt.Errorf("status of budget %s: %w", localcache.KeyOf(b), err)
	}
	c.ledger.Add(localcache.KeyOf(b), c.config.Budgets, updated.ResourceVersion)
	return nil
}
