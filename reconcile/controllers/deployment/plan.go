package deployment

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// deploymentPlan is the next step of a Deployment.
type deploymentPlan struct {
	create *appsv1.ReplicaSet
	update []setUpdate
	delete []*appsv1.ReplicaSet
	// rollback, if set, is the whole plan.
	rollback *rollback
	// current is the ReplicaSet of the present template; nil if there is none.
	current *appsv1.ReplicaSet
	// total is the number of pods that the ReplicaSets request after the plan.
	total int32
	// revision is the Deployment's revision annotation. Empty means that it cannot be computed yet.
	revision string
	// rolling is true while the template is being rolled out, and false if only the number of
	// replicas changed. Progress is judged only during a rollout.
	rolling bool
}

type setUpdate struct{ from, to *appsv1.ReplicaSet }

// rollout is a Deployment with its ReplicaSets and the sizes planned for them.
type rollout struct {
	d       *appsv1.Deployment
	current *appsv1.ReplicaSet
	old     []*appsv1.ReplicaSet // oldest first
	size    map[*appsv1.ReplicaSet]int32
	// scaled holds the ReplicaSets whose annotation of the number of replicas changes even if their
	// size does not.
	scaled map[*appsv1.ReplicaSet]bool
}

// planDeployment plans from d, the ReplicaSets it controls, and whether pods of a ReplicaSet
// remain.
func planDeployment(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, podsRemain func(*appsv1.ReplicaSet) bool) deploymentPlan {
	r := newRollout(d, sets)
	plan := deploymentPlan{current: r.current}
	revision := r.revision()
	clean := false
	switch {
	case d.DeletionTimestamp != nil:
		plan.total = r.total()
		return plan
	case d.Spec.Paused:
		r.scale()
		clean = rollbackTo(d) == nil
	case rollbackTo(d) != nil:
		plan.rollback, plan.total = r.rollback(*rollbackTo(d)), r.total()
		return plan
	case r.scaling():
		r.scale()
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		plan.rolling = true
		if !r.recreate(podsRemain) {
			break
		}
		if r.current == nil {
			plan.create = r.newSet(revision, r.want())
		} else {
			r.size[r.current] = r.want()
		}
	case r.current == nil:
		plan.rolling = true
		plan.create = r.newSet(revision, r.room(0))
	default:
		plan.rolling = true
		r.roll()
	}
	if plan.create != nil || r.current != nil {
		plan.revision = revision
	}
	plan.update = r.updates(revision)
	plan.total = r.total()
	if plan.create != nil {
		plan.total += *plan.create.Spec.Replicas
	} else if len(plan.update) == 0 && (clean || plan.rolling && r.complete()) {
		plan.delete = r.history()
	}
	return plan
}

func newRollout(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) *rollout {
	r := &rollout{d: d, size: make(map[*appsv1.ReplicaSet]int32), scaled: make(map[*appsv1.ReplicaSet]bool)}
	sets = slices.Clone(sets)
	slices.SortFunc(sets, byAge)
	for _, rs := range sets {
		r.size[rs] = optional.Value(rs.Spec.Replicas, 1)
		// Of equal ReplicaSets the oldest wins: other controllers find that one, too.
		if r.current == nil && sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			r.current = rs
		} else {
			r.old = append(r.old, rs)
		}
	}
	return r
}

func byAge(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

func (r *rollout) want() int32 { return optional.Value(r.d.Spec.Replicas, 1) }

// bounds resolves maxSurge, rounded up, and maxUnavailable, rounded down. At least one of them is
// positive.
func bounds(d *appsv1.Deployment) (surge, unavailable int32) {
	want := int(optional.Value(d.Spec.Replicas, 1))
	quarter := intstr.FromString("25%")
	rolling := optional.Value(d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return 0, 0
	}
	s, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(rolling.MaxSurge, quarter), want, true)
	if err != nil {
		s = 0
	}
	u, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(rolling.MaxUnavailable, quarter), want, false)
	if err != nil {
		u = 0
	}
	if s <= 0 && u <= 0 {
		s, u = 0, 1
	}
	return int32(s), int32(min(u, want))
}

func (r *rollout) total() (n int32) {
	for _, size := range r.size {
		n += size
	}
	return n
}

// available counts available pods, of each ReplicaSet at most as many as will remain.
func (r *rollout) available() (n int32) {
	for rs, size := range r.size {
		n += min(size, rs.Status.AvailableReplicas)
	}
	return n
}

// settled reports whether the status of rs is about its present size. Before that the number of its
// pods is unknown: it may be creating pods for an earlier size, or deleting pods that a later size
// needs.
func settled(rs *appsv1.ReplicaSet) bool { return rs.Status.ObservedGeneration >= rs.Generation }

// room returns the size of the current ReplicaSet that the other pods leave room for; have is its
// present size. A pod takes room until it no longer exists.
func (r *rollout) room(have int32) int32 {
	if have > r.want() {
		return r.want()
	}
	surge, _ := bounds(r.d)
	room := r.want() + surge - have
	for _, rs := range r.old {
		if !settled(rs) {
			return have
		}
		room -= max(r.size[rs], rs.Status.Replicas)
	}
	return have + max(0, min(room, r.want()-have))
}

// roll takes the next step of a rolling update. It scales either up or down, because how far it may
// scale down depends on how many new pods become available.
func (r *rollout) roll() {
	have := r.size[r.current]
	if next := r.room(have); next != have {
		r.size[r.current] = next
		return
	}
	if !settled(r.current) || !r.oldSettled() {
		return
	}
	_, unavailable := bounds(r.d)
	least := r.want() - unavailable
	budget := r.total() - least - max(0, have-r.current.Status.AvailableReplicas)
	// Unavailable pods go first: they free room at no cost.
	for _, rs := range r.old {
		gone := min(max(budget, 0), r.size[rs]-min(r.size[rs], rs.Status.AvailableReplicas))
		r.size[rs] -= gone
		budget -= gone
	}
	budget = min(budget, r.available()-least)
	for _, rs := range r.old {
		gone := min(max(budget, 0), r.size[rs])
		r.size[rs] -= gone
		budget -= gone
	}
}

func (r *rollout) oldSettled() bool {
	return !slices.ContainsFunc(r.old, func(rs *appsv1.ReplicaSet) bool { return !settled(rs) })
}

// recreate scales all old ReplicaSets down and reports whether their pods no longer exist.
func (r *rollout) recreate(podsRemain func(*appsv1.ReplicaSet) bool) bool {
	gone := r.oldSettled()
	for _, rs := range r.old {
		gone = gone && r.size[rs] == 0 && rs.Status.Replicas == 0 && !podsRemain(rs)
		r.size[rs] = 0
	}
	return gone
}

// complete reports whether all wanted pods run, and no other ones.
func (r *rollout) complete() bool {
	var replicas, available int32
	for rs := range r.size {
		replicas += rs.Status.Replicas
		available += rs.Status.AvailableReplicas
	}
	return r.current != nil && r.current.Status.Replicas == r.want() && replicas == r.want() && available == r.want()
}

// history returns the unused old ReplicaSets beyond the limit, lowest revisions first.
func (r *rollout) history() []*appsv1.ReplicaSet {
	limit := int(optional.Value(r.d.Spec.RevisionHistoryLimit, math.MaxInt32))
	kept := slices.DeleteFunc(slices.Clone(r.old), func(rs *appsv1.ReplicaSet) bool { return rs.DeletionTimestamp != nil })
	if len(kept) <= limit {
		return nil
	}
	slices.SortStableFunc(kept, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(setRevision(a), setRevision(b)) })
	return slices.DeleteFunc(kept[:len(kept)-limit], func(rs *appsv1.ReplicaSet) bool {
		return r.size[rs] != 0 || rs.Status.Replicas != 0 || !settled(rs)
	})
}
