package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
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
	"k8s.io/apimachinery/pkg/types"
)

// DeploymentConfig joins a Deployment controller to its surroundings. All
// fields but the last three must be set.
type DeploymentConfig struct {
	Deployments localcache.Cache[*appsv1.Deployment]
	ReplicaSets localcache.Cache[*appsv1.ReplicaSet]
	Pods        localcache.Cache[*corev1.Pod]
	// ReplicaSetsByController and PodsByController are indexes of ReplicaSets and
	// Pods by [ByController].
	ReplicaSetsByController localcache.Index[types.UID, *appsv1.ReplicaSet]
	PodsByController        localcache.Index[types.UID, *corev1.Pod]
	// Writer writes Deployments: their status, and their revision annotation.
	Writer interface {
		Updater[*appsv1.Deployment]
		StatusUpdater[*appsv1.Deployment]
	}
	// ReplicaSetWriter writes ReplicaSets.
	ReplicaSetWriter ReplicaSetWriter
	// Events may be nil.
	Events Events
	// Workers is how many Deployments are worked on at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// ReplicaSetWriter is how a Deployment controller changes ReplicaSets.
type ReplicaSetWriter interface {
	Creator[*appsv1.ReplicaSet]
	Updater[*appsv1.ReplicaSet]
	Deleter
	Patcher[*appsv1.ReplicaSet]
}

// Deployment rolls out pod templates by making and scaling ReplicaSets.
type Deployment struct {
	*loop
	config  DeploymentConfig
	written written
	// statuses has the revisions of Deployments written here.
	statuses written

	mu sync.Mutex
	// tried is guarded by mu: by Deployment, the ReplicaSet that it last tried to
	// create or, with a resource version, to update, when nobody knows whether
	// that succeeded.
	tried map[string]*appsv1.ReplicaSet
}

var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// NewDeployment checks config. It starts nothing.
func NewDeployment(config DeploymentConfig) (*Deployment, error) {
	err := required("DeploymentConfig", "Deployments", config.Deployments, "ReplicaSets", config.ReplicaSets, "Pods", config.Pods,
		"ReplicaSetsByController", config.ReplicaSetsByController, "PodsByController", config.PodsByController,
		"Writer", config.Writer, "ReplicaSetWriter", config.ReplicaSetWriter)
	if err != nil {
		return nil, err
	}
	if config.Events == nil {
		config.Events = noEvents{}
	}
	c := &Deployment{config: config, tried: make(map[string]*appsv1.ReplicaSet)}
	if c.loop, err = newLoop("deployment", config.Workers, config.Log, reconcile.Backoff{}, c.reconcile); err != nil {
		return nil, err
	}
	watch(c.loop, config.Deployments, enqueueObject[*appsv1.Deployment](c.loop))
	watch(c.loop, config.ReplicaSets, c.replicaSetChanged)
	watch(c.loop, config.Pods, c.podChanged)
	return c, nil
}

func (c *Deployment) replicaSetChanged(old, new *appsv1.ReplicaSet) {
	enqueueController[*appsv1.ReplicaSet](c.loop, appsv1.GroupName, deploymentKind.Kind)(old, new)
	if new == nil || metav1.GetControllerOfNoCopy(new) != nil || new.DeletionTimestamp != nil {
		return
	}
	for d := range c.config.Deployments.All() {
		if d.Namespace != new.Namespace {
			continue
		}
		if selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err == nil && selector.Matches(labels.Set(new.Labels)) {
			c.Enqueue(key(d))
		}
	}
}

// podChanged tells a Deployment which recreates that a pod has ended or gone.
// Any other learns what it needs from the status of its ReplicaSets.
func (c *Deployment) podChanged(old, new *corev1.Pod) {
	if old == nil || (new != nil && !ended(new)) {
		return
	}
	owner := metav1.GetControllerOfNoCopy(old)
	if owner == nil || !isKind(owner, appsv1.GroupName, replicaSetKind.Kind) {
		return
	}
	rs, ok := c.config.ReplicaSets.Get(localcache.Key(old.Namespace, owner.Name))
	if !ok {
		return
	}
	if owner := metav1.GetControllerOfNoCopy(rs); owner != nil && isKind(owner, appsv1.GroupName, deploymentKind.Kind) {
		c.Enqueue(localcache.Key(rs.Namespace, owner.Name))
	}
}

func (c *Deployment) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	if err := c.written.wait(ctx, key, c.config.ReplicaSets.WaitFor); err != nil {
		return reconcile.Result{}, err
	}
	if err := c.statuses.wait(ctx, key, c.config.Deployments.WaitFor); err != nil {
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

func (c *Deployment) claim(ctx context.Context, d *appsv1.Deployment) ([]*appsv1.ReplicaSet, bool, error) {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, false, fmt.Errorf("selector of %s: %w", key(d), err)
	}
	claimed := planClaims(d, selector, slices.Collect(c.config.ReplicaSetsByController.Get(d.UID)),
		slices.Collect(c.config.ReplicaSetsByController.Get(Orphans(d.Namespace))))
	changed, err := claim(ctx, claimed, d, deploymentKind, Patcher[*appsv1.ReplicaSet](c.config.ReplicaSetWriter),
		func(ctx context.Context) error {
			_, err := c.config.Writer.UpdateStatus(ctx, d.DeepCopy()) // refused if d is not the newest
			return err
		},
		func(revision string) { c.written.add(key(d), revision) })
	return claimed.mine, changed, err
}

// podsRemain tells which ReplicaSets still have pods that may run.
func (c *Deployment) podsRemain(sets []*appsv1.ReplicaSet) func(*appsv1.ReplicaSet) bool {
	return func(rs *appsv1.ReplicaSet) bool {
		for pod := range c.config.PodsByController.Get(rs.UID) {
			if !ended(pod) {
				return true
			}
		}
		return false
	}
}

func (c *Deployment) act(ctx context.Context, d *appsv1.Deployment, plan deploymentPlan) error {
	if plan.create != nil {
		if err := c.createSet(ctx, d, plan.create); err != nil {
			return err
		}
	}
	for _, u := range plan.update {
		updated, err := c.config.ReplicaSetWriter.Update(ctx, u.to)
		if err != nil {
			if !refused(err) && !apierrors.IsConflict(err) {
				c.setTried(key(d), u.from)
			}
			return fmt.Errorf("update replica set %s: %w", key(u.to), err)
		}
		c.written.add(key(d), updated.ResourceVersion)
		c.scaled(d, u.to.Name, value(u.from.Spec.Replicas, 1), value(u.to.Spec.Replicas, 1))
	}
	for _, rs := range plan.delete {
		// The resource version as well as the UID: had it been scaled up meanwhile,
		// it would be in use.
		err := c.config.ReplicaSetWriter.Delete(ctx, rs.Namespace, rs.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &rs.UID, ResourceVersion: &rs.ResourceVersion},
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete old replica set %s: %w", key(rs), err)
		}
	}
	return nil
}

// resolve finds out what became of a write without an answer. Nothing can be
// decided before: that ReplicaSet may be making pods.
func (c *Deployment) resolve(ctx context.Context, d *appsv1.Deployment) error {
	c.mu.Lock()
	rs := c.tried[key(d)]
	c.mu.Unlock()
	if rs == nil {
		return nil
	}
	seen, ok := c.config.ReplicaSets.Get(key(rs))
	update := rs.ResourceVersion != ""
	known := ok
	if update {
		// The update, had it succeeded, was the first after that resource version: a
		// copy that shows any other shows it, too.
		known = !ok || seen.ResourceVersion != rs.ResourceVersion
	}
	if known || d.DeletionTimestamp != nil {
		c.setTried(key(d), nil)
		return nil
	}
	if update {
		// Unchanged, which the API accepts if nothing has changed.
		if _, err := c.config.ReplicaSetWriter.Update(ctx, rs.DeepCopy()); err != nil {
			return fmt.Errorf("look at replica set %s: %w", key(rs), err)
		}
		c.setTried(key(d), nil)
		return nil
	}
	// The same name again, which an existing one refuses; without replicas, for
	// it may not be what is wanted any more.
	empty := rs.DeepCopy()
	empty.Spec.Replicas = new(int32)
	_, err := c.create(ctx, d, empty)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create replica set %s again: %w", key(rs), err)
	}
	return errStale // it exists: look again when the copy shows it
}

// create creates rs and remembers it as long as nobody knows whether it exists.
func (c *Deployment) create(ctx context.Context, d *appsv1.Deployment, rs *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	c.setTried(key(d), rs)
	created, err := c.config.ReplicaSetWriter.Create(ctx, rs)
	if err == nil {
		c.written.add(key(d), created.ResourceVersion)
	}
	if err == nil || refused(err) {
		c.setTried(key(d), nil)
	}
	return created, err
}

func (c *Deployment) setTried(deployment string, rs *appsv1.ReplicaSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rs == nil {
		delete(c.tried, deployment)
	} else {
		c.tried[deployment] = rs
	}
}

func (c *Deployment) createSet(ctx context.Context, d *appsv1.Deployment, rs *appsv1.ReplicaSet) error {
	created, err := c.create(ctx, d, rs)
	switch {
	case err == nil:
		c.scaled(d, created.Name, 0, value(created.Spec.Replicas, 1))
		return nil
	case !apierrors.IsAlreadyExists(err):
		if ctx.Err() == nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			c.notCreated(ctx, d, fmt.Sprintf("Failed to create new replica set %q: %v", rs.Name, err))
		}
		return fmt.Errorf("create replica set %s: %w", key(rs), err)
	}
	holder, ok := c.config.ReplicaSets.Get(key(rs))
	if !ok || metav1.IsControlledBy(holder, d) && sameTemplate(&holder.Spec.Template, &rs.Spec.Template) {
		return errStale // ours, and about to show up
	}
	// Another has the name: the next hash counts one more collision.
	status := d.Status.DeepCopy()
	collisions := value(d.Status.CollisionCount, 0) + 1
	status.CollisionCount = &collisions
	if err := c.updateStatus(ctx, d, *status, ""); err != nil {
		return fmt.Errorf("count a collision: %w", err)
	}
	return errStale
}

// notCreated tells users that there is no ReplicaSet. That it fails is logged;
// it is about to be tried again together with what it is about.
func (c *Deployment) notCreated(ctx context.Context, d *appsv1.Deployment, message string) {
	c.config.Events.Event(d, corev1.EventTypeWarning, reasonNotCreated, message)
	if !hasDeadline(d) {
		return
	}
	status := d.Status.DeepCopy()
	setDeploymentCondition(status, time.Now(), appsv1.DeploymentProgressing, corev1.ConditionFalse, reasonNotCreated, message)
	if err := c.updateStatus(ctx, d, *status, ""); err != nil {
		c.config.Log.Error(err, "status not written", "deployment", key(d))
	}
}

func (c *Deployment) scaled(d *appsv1.Deployment, name string, from, to int32) {
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

// updateStatus writes the status and, unless it is empty, the revision, which
// the API accepts along with it. An annotation changed in any other way would be
// a change of what is wanted.
func (c *Deployment) updateStatus(ctx context.Context, d *appsv1.Deployment, status appsv1.DeploymentStatus, revision string) error {
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
		return errStale // that it is gone is on its way to the copy
	case err != nil:
		return fmt.Errorf("status of deployment %s: %w", key(d), err)
	}
	c.statuses.add(key(d), updated.ResourceVersion)
	return nil
}
