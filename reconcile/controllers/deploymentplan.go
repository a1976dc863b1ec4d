package controllers

import (
	"cmp"
	"math"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// deploymentPlan is the next step of a Deployment.
type deploymentPlan struct {
	create *appsv1.ReplicaSet
	update []setUpdate
	delete []*appsv1.ReplicaSet
	// current is the ReplicaSet of the present template; nil if there is none.
	current *appsv1.ReplicaSet
	// revision is what the Deployment is to be annotated with; empty when that
	// cannot be told yet.
	revision string
}

type setUpdate struct{ from, to *appsv1.ReplicaSet }

// rollout is a Deployment with its ReplicaSets, and the sizes they are to have.
type rollout struct {
	d       *appsv1.Deployment
	current *appsv1.ReplicaSet
	old     []*appsv1.ReplicaSet // oldest first
	size    map[*appsv1.ReplicaSet]int32
}

// planDeployment decides from d, the ReplicaSets it controls, and whether pods
// of a ReplicaSet remain.
func planDeployment(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, podsRemain func(*appsv1.ReplicaSet) bool) deploymentPlan {
	r := newRollout(d, sets)
	plan := deploymentPlan{current: r.current}
	revision := r.revision()
	switch {
	case d.Spec.Paused:
		r.scalePaused()
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		if !r.recreate(podsRemain) {
			break
		}
		if r.current == nil {
			plan.create = r.newSet(revision, r.want())
		} else {
			r.size[r.current] = r.want()
		}
	case r.current == nil:
		plan.create = r.newSet(revision, r.room(0))
	default:
		r.roll()
	}
	if plan.create != nil || r.current != nil {
		plan.revision = revision
	}
	plan.update = r.updates(revision)
	if plan.create == nil && len(plan.update) == 0 {
		plan.delete = r.history()
	}
	return plan
}

func newRollout(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) *rollout {
	r := &rollout{d: d, size: make(map[*appsv1.ReplicaSet]int32)}
	sets = slices.Clone(sets)
	slices.SortFunc(sets, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for _, rs := range sets {
		r.size[rs] = value(rs.Spec.Replicas, 1)
		// The oldest of equals wins: it is the one that others would have found.
		if r.current == nil && rs.DeletionTimestamp == nil && sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			r.current = rs
		} else {
			r.old = append(r.old, rs)
		}
	}
	return r
}

func (r *rollout) want() int32 { return value(r.d.Spec.Replicas, 1) }

// bounds resolves maxSurge, rounded up, and maxUnavailable, rounded down. They
// cannot both be zero.
func bounds(d *appsv1.Deployment) (surge, unavailable int32) {
	want := int(value(d.Spec.Replicas, 1))
	quarter := intstr.FromString("25%")
	rolling := value(d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
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

// available counts available pods, of a ReplicaSet no more than will be left.
func (r *rollout) available() (n int32) {
	for rs, size := range r.size {
		n += min(size, rs.Status.AvailableReplicas)
	}
	return n
}

// settled tells whether the status of rs is about its present size. Before
// that nobody knows how many pods it has: it may be making those that an
// earlier size asked for, or removing those that a later one wants back.
func settled(rs *appsv1.ReplicaSet) bool { return rs.Status.ObservedGeneration >= rs.Generation }

// room is the size of the current ReplicaSet, now of size have, that the other
// pods leave room for. A pod takes room until it is gone.
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

// roll takes the next step of a rolling update: either up or down, never both,
// since how far down depends on what has become available of what went up.
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
	// Pods that are not available anyway go first: they free room at no cost.
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

// recreate takes down everything old and tells whether it is gone.
func (r *rollout) recreate(podsRemain func(*appsv1.ReplicaSet) bool) bool {
	gone := r.oldSettled()
	for _, rs := range r.old {
		gone = gone && r.size[rs] == 0 && rs.Status.Replicas == 0 && !podsRemain(rs)
		r.size[rs] = 0
	}
	return gone
}

// scalePaused lets a paused Deployment follow its replicas as long as it is
// clear which ReplicaSet they are.
func (r *rollout) scalePaused() {
	var active []*appsv1.ReplicaSet
	for rs, size := range r.size {
		if size > 0 {
			active = append(active, rs)
		}
	}
	switch {
	case len(active) == 1:
		r.size[active[0]] = r.want()
	case len(active) == 0 && r.current != nil:
		r.size[r.current] = r.want()
	case len(active) == 0 && len(r.old) > 0:
		r.size[r.old[len(r.old)-1]] = r.want()
	}
}

// history lists the old ReplicaSets beyond the limit, once the rollout is
// complete.
func (r *rollout) history() []*appsv1.ReplicaSet {
	limit := value(r.d.Spec.RevisionHistoryLimit, math.MaxInt32)
	if r.current == nil || r.current.Status.AvailableReplicas < r.want() || r.d.Spec.Paused {
		return nil
	}
	idle := slices.DeleteFunc(slices.Clone(r.old), func(rs *appsv1.ReplicaSet) bool {
		return r.size[rs] != 0 || rs.Status.Replicas != 0 || rs.Generation > rs.Status.ObservedGeneration || rs.DeletionTimestamp != nil
	})
	if len(idle) <= int(limit) {
		return nil
	}
	slices.SortStableFunc(idle, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(setRevision(a), setRevision(b)) })
	return idle[:len(idle)-int(limit)]
}
