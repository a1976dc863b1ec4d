package deployment

import (
	"context"
	"fmt"
	"slices"
	"sync"
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
	"k8s.io/apimachinery/pkg/types"
)

// Config configures a Controller. All fields before Events are required.
type Config struct {
	Deployments localcache.Cache[*appsv1.Deployment]
	ReplicaSets localcache.Cache[*appsv1.ReplicaSet]
	Pods        localcache.Cache[*corev1.Pod]
	// ReplicaSetsByController and PodsByController are indexes of ReplicaSets and
	// Pods by [owner.ByController].
	ReplicaSetsByController localcache.Index[types.UID, *appsv1.ReplicaSet]
	PodsByController        localcache.Index[types.UID, *corev1.Pod]
	// Writer writes Deployments: their status, and their revision annotation.
	Writer interface {
		controllers.Updater[*appsv1.Deployment]
		controllers.StatusUpdater[*appsv1.Deployment]
	}
	// ReplicaSetWriter writes ReplicaSets.
	ReplicaSetWriter ReplicaSetWriter
	// Events records Event objects. Nil discards them.
	Events controllers.Events
	// Workers is the number of Deployments processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// ReplicaSetWriter creates, changes and deletes ReplicaSets.
type ReplicaSetWriter interface {
	controllers.Creator[*appsv1.ReplicaSet]
	controllers.Updater[*appsv1.ReplicaSet]
	controllers.Deleter
	controllers.Patcher[*appsv1.ReplicaSet]
}

// Controller rolls out pod templates by creating and scaling ReplicaSets.
type Controller struct {
	*reconcile.Controller[string]
	config Config
	// ledger has the writes of ReplicaSets and Deployments.
	ledger owner.Ledger

	mu sync.Mutex
	// tried holds, by Deployment, the ReplicaSet that the controller last tried to create or, if it
	// has a resource version, to update, while the outcome is not known. Guarded by mu.
	tried map[string]*appsv1.ReplicaSet
}

var (
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
	replicaSetKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
)

// New returns a controller, or an error if config lacks a required field. It starts nothing.
func New(config Config) (*Controller, error) {
	err := loop.Required("deployment: Config", "Deployments", config.Deployments, "ReplicaSets", config.ReplicaSets, "Pods", config.Pods,
		"ReplicaSetsByController", config.ReplicaSetsByController, "PodsByController", config.PodsByController,
		"Writer", config.Writer, "ReplicaSetWriter", config.ReplicaSetWriter)
	if err != nil {
		return nil, err
	}
	if config.Events == nil {
		config.Events = controllers.NoEvents{}
	}
	c := &Controller{config: config, tried: make(map[string]*appsv1.ReplicaSet)}
	if c.Controller, err = loop.New(loop.Config{Name: "deployment", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.Watch(c.Controller, config.Deployments, reconcile.Itself(localcache.KeyOf[*appsv1.Deployment]))
	reconcile.WatchFunc(c.Controller, config.ReplicaSets, c.replicaSetChanged)
	reconcile.WatchFunc(c.Controller, config.Pods, c.podChanged)
	return c, nil
}

func (c *Controller) replicaSetChanged(old, new *appsv1.ReplicaSet) {
	for key := range owner.Controllers[*appsv1.ReplicaSet](appsv1.GroupName, deploymentKind.Kind)(old, new) {
		c.Enqueue(key)
	}
	if new == nil {
		return
	}
	for key := range owner.Adopters(new, c.config.Deployments.All(), selectorOf) {
		c.Enqueue(key)
	}
}

func selectorOf(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector }

// podChanged enqueues a Deployment that recreates when a pod has ended or is deleted. Any other
// Deployment learns what it needs from the status of its ReplicaSets.
func (c *Controller) podChanged(old, new *corev1.Pod) {
	if old == nil || (new != nil && !podstatus.Ended(new)) {
		return
	}
	ref := metav1.GetControllerOfNoCopy(old)
	if ref == nil || !owner.IsKind(ref, appsv1.GroupName, replicaSetKind.Kind) {
		return
	}
	rs, ok := c.config.ReplicaSets.Get(localcache.Key(old.Namespace, ref.Name))
	if !ok {
		return
	}
	if ref := metav1.GetControllerOfNoCopy(rs); ref != nil && owner.IsKind(ref, appsv1.GroupName, deploymentKind.Kind) {
		c.Enqueue(localcache.Key(rs.Namespace, ref.Name))
	}
}

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	if err := c.ledger.Wait(ctx, key); err != nil {
		return reconcile.Result{}, err
	}
	d, ok := c.config.Deployments.Get(key)
	if !ok {
		c.setTried(key, nil)
		return reconcile.Result{}, nil
	}
	if selectsAll(d.Spec.Selector) {
		c.config.Events.Event(d, corev1.EventTypeWarning, "SelectingAll",
			"This deployment is selecting all pods. A non-empty selector is required.")
		status := d.Status.DeepCopy()
		status.ObservedGeneration = d.Generation
		return reconcile.Result{}, c.updateStatus(ctx, d, *status, "")
	}
	if err := c.resolve(ctx, d); err != nil {
		return reconcile.Result{}, err
	}
	sets, changed, err := c.claim(ctx, d)
	if err != nil || changed {
		return reconcile.Result{Requeue: changed}, err
	}
	plan := planDeployment(d, sets, c.podsRemain(sets))
	if plan.rollback != nil {
		return reconcile.Result{}, c.rollBack(ctx, d, plan.rollback)
	}
	switch err := c.act(ctx, d, plan); {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.Result{}, nil // d is about to go as well
	case err != nil:
		return reconcile.Result{}, err
	}
	now := time.Now()
	status := deploymentStatus(d, sets, plan, now)
	if err := c.updateStatus(ctx, d, status, plan.revision); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{After: progressDeadline(d, status, now)}, nil
}

func selectsAll(selector *metav1.LabelSelector) bool {
	return selector != nil && len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

func (c *Controller) claim(ctx context.Context, d *appsv1.Deployment) ([]*appsv1.ReplicaSet, bool, error) {
	wanted, err := selector.Of(d.Spec.Selector)
	if err != nil {
		return nil, false, fmt.Errorf("selector of %s: %w", localcache.KeyOf(d), err)
	}
	claimed := owner.PlanClaims(d, wanted, slices.Collect(c.config.ReplicaSetsByController.Get(d.UID)),
		slices.Collect(c.config.ReplicaSetsByController.Get(owner.Orphans(d.Namespace))))
	changed, err := owner.Claim(ctx, claimed, d, deploymentKind, controllers.Patcher[*appsv1.ReplicaSet](c.config.ReplicaSetWriter),
		func(ctx context.Context) error {
			_, err := c.config.Writer.UpdateStatus(ctx, d.DeepCopy()) // refused if d is not the newest
			return err
		},
		func(revision string) { c.ledger.Add(localcache.KeyOf(d), c.config.ReplicaSets, revision) })
	return claimed.Mine, changed, err
}

// podsRemain returns a function that reports whether a ReplicaSet still has pods that may run.
func (c *Controller) podsRemain(sets []*appsv1.ReplicaSet) func(*appsv1.ReplicaSet) bool {
	return func(rs *appsv1.ReplicaSet) bool {
		for pod := range c.config.PodsByController.Get(rs.UID) {
			if !podstatus.Ended(pod) {
				return true
			}
		}
		return false
	}
}

func (c *Controller) act(ctx context.Context, d *appsv1.Deployment, plan deploymentPlan) error {
	if plan.create != nil {
		if err := c.createSet(ctx, d, plan.create); err != nil {
			return err
		}
	}
	for _, u := range plan.update {
		updated, err := c.config.ReplicaSetWriter.Update(ctx, u.to)
		if err != nil {
			if !loop.Refused(err) && !apierrors.IsConflict(err) {
				c.setTried(localcache.KeyOf(d), u.from)
			}
			return fmt.Errorf("update replica set %s: %w", localcache.KeyOf(u.to), err)
		}
		c.ledger.Add(localcache.KeyOf(d), c.config.ReplicaSets, updated.ResourceVersion)
		c.scaled(d, u.to.Name, optional.Value(u.from.Spec.Replicas, 1), optional.Value(u.to.Spec.Replicas, 1))
	}
	for _, rs := range plan.delete {
		// Compare the resource version as well as the UID: a ReplicaSet that was scaled up
		// meanwhile is in use.
		err := c.config.ReplicaSetWriter.Delete(ctx, rs.Namespace, rs.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &rs.UID, ResourceVersion: &rs.ResourceVersion},
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete old replica set %s: %w", localcache.KeyOf(rs), err)
		}
	}
	return nil
}

// resolve finds out the outcome of a write without an answer. Nothing can be decided before: that
// ReplicaSet may be creating pods.
func (c *Controller) resolve(ctx context.Context, d *appsv1.Deployment) error {
	c.mu.Lock()
	rs := c.tried[localcache.KeyOf(d)]
	c.mu.Unlock()
	if rs == nil {
		return nil
	}
	seen, ok := c.config.ReplicaSets.Get(localcache.KeyOf(rs))
	update := rs.ResourceVersion != ""
	known := ok
	if update {
		// If the update was stored, it was the first after that resourceVersion. So a
		// cache that has another resourceVersion has the update, too.
		known = !ok || seen.ResourceVersion != rs.ResourceVersion
	}
	if known || d.DeletionTimestamp != nil {
		c.setTried(localcache.KeyOf(d), nil)
		return nil
	}
	if update {
		// The resource version is unchanged, which the API accepts if nothing has changed.
		if _, err := c.config.ReplicaSetWriter.Update(ctx, rs.DeepCopy()); err != nil {
			return fmt.Errorf("look at replica set %s: %w", localcache.KeyOf(rs), err)
		}
		c.setTried(localcache.KeyOf(d), nil)
		return nil
	}
	// The same name again: if the ReplicaSet exists, the create is refused. Without replicas,
	// because it may not be wanted any more.
	empty := rs.DeepCopy()
	empty.Spec.Replicas = new(int32)
	_, err := c.create(ctx, d, empty)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create replica set %s again: %w", localcache.KeyOf(rs), err)
	}
	return loop.ErrStale // it exists: look again when the copy shows it
}

// create creates rs and remembers it while its outcome is not known.
func (c *Controller) create(ctx context.Context, d *appsv1.Deployment, rs *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	c.setTried(localcache.KeyOf(d), rs)
	created, err := c.config.ReplicaSetWriter.Create(ctx, rs)
	if err == nil {
		c.ledger.Add(localcache.KeyOf(d), c.config.ReplicaSets, created.ResourceVersion)
	}
	if err == nil || loop.Refused(err) {
		c.setTried(localcache.KeyOf(d), nil)
	}
	return created, err
}

func (c *Controller) setTried(deployment string, rs *appsv1.ReplicaSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rs == nil {
		delete(c.tried, deployment)
	} else {
		c.tried[deployment] = rs
	}
}

func (c *Controller) createSet(ctx context.Context, d *appsv1.Deployment, rs *appsv1.ReplicaSet) error {
	created, err := c.create(ctx, d, rs)
	switch {
	case err == nil:
		c.scaled(d, created.Name, 0, optional.Value(created.Spec.Replicas, 1))
		return nil
	case !apierrors.IsAlreadyExists(err):
		if ctx.Err() == nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			c.notCreated(ctx, d, fmt.Sprintf("Failed to create new replica set %q: %v", rs.Name, err))
		}
		return fmt.Errorf("create replica set %s: %w", localcache.KeyOf(rs), err)
	}
	holder, ok := c.config.ReplicaSets.Get(localcache.KeyOf(rs))
	if !ok || metav1.IsControlledBy(holder, d) && sameTemplate(&holder.Spec.Template, &rs.Spec.Template) {
		return loop.ErrStale // ours, and about to show up
	}
	// Another object has the name. Count a collision, which changes the next hash.
	status := d.Status.DeepCopy()
	collisions := optional.Value(d.Status.CollisionCount, 0) + 1
	status.CollisionCount = &collisions
	if err := c.updateStatus(ctx, d, *status, ""); err != nil {
		return fmt.Errorf("count a collision: %w", err)
	}
	return loop.ErrStale
}

// notCreated records that a ReplicaSet could not be created. A failure to write the status is only
// logged: the reconciler is about to try both again.
func (c *Controller) notCreated(ctx context.Context, d *appsv1.Deployment, message string) {
	c.config.Events.Event(d, corev1.EventTypeWarning, reasonNotCreated, message)
	if !hasDeadline(d) {
		return
	}
	status := d.Status.DeepCopy()
	setDeploymentCondition(status, time.Now(), appsv1.DeploymentProgressing, corev1.ConditionFalse, reasonNotCreated, message)
	if err := c.updateStatus(ctx, d, *status, ""); err != nil {
		c.config.Log.Error(err, "status not written", "deployment", localcache.KeyOf(d))
	}
}

func (c *Controller) scaled(d *appsv1.Deployment, name string, from, to int32) {
	direction := "up"
	switch {
	case from == to:
		return
	case to < from:
		direction = "down"
	}
	c.config.Events.Event(d, corev1.EventTypeNormal, "ScalingReplicaSet",
		fmt.Sprintf("Scaled %s replica set %s from %d to %d", direction, name, from, to))
}

// updateStatus writes the status and, unless it is empty, the revision. The API accepts that
// annotation with the status; any other change of annotations would be a change of the spec.
func (c *Controller) updateStatus(ctx context.Context, d *appsv1.Deployment, status appsv1.DeploymentStatus, revision string) error {
	annotated := revision == "" || d.Annotations[revisionAnnotation] == revision
	if annotated && equality.Semantic.DeepEqual(d.Status, status) {
		return nil
	}
	update := d.DeepCopy()
	update.Status = status
	if !annotated {
		metav1.SetMetaDataAnnotation(&update.ObjectMeta, revisionAnnotation, revision)
	}
	updated, err := c.config.Writer.UpdateStatus(ctx, update)
	switch {
	case apierrors.IsNotFound(err):
		return loop.ErrStale // that it is gone is on its way to the copy
	case err != nil:
		return fmt.Errorf("status of deployment %s: %w", localcache.KeyOf(d), err)
	}
	c.ledger.Add(localcache.KeyOf(d), c.config.Deployments, updated.ResourceVersion)
	return nil
}
