package deployment

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
)

// scaling reports whether the number of replicas differs from the one that the ReplicaSets with
// pods have noted.
func (r *rollout) scaling() bool {
	return slices.ContainsFunc(r.active(), func(rs *appsv1.ReplicaSet) bool {
		desired, ok := notedReplicas(rs, desiredAnnotation)
		return ok && desired != r.want()
	})
}

// notedReplicas returns the number of replicas in an annotation.
func notedReplicas(rs *appsv1.ReplicaSet, annotation string) (int32, bool) {
	n, err := strconv.ParseUint(rs.Annotations[annotation], 10, 31)
	return int32(n), err == nil
}

// all returns the ReplicaSets, the current one last.
func (r *rollout) all() []*appsv1.ReplicaSet {
	all := slices.Clone(r.old)
	if r.current != nil {
		all = append(all, r.current)
	}
	return all
}

// active returns the ReplicaSets that must have pods.
func (r *rollout) active() []*appsv1.ReplicaSet {
	return slices.DeleteFunc(r.all(), func(rs *appsv1.ReplicaSet) bool { return r.size[rs] == 0 })
}

// scale follows the number of replicas without continuing the rollout: each ReplicaSet keeps its
// share. None grows before all are calm, so that terminating pods do not exceed the maximum.
func (r *rollout) scale() {
	next := r.shares()
	grows := false
	for rs, size := range next {
		grows = grows || size > r.size[rs]
	}
	if grows && !r.calm() {
		clear(r.scaled)
		return
	}
	for rs, size := range next {
		r.size[rs] = size
	}
}

// calm reports whether no ReplicaSet has more pods than its size.
func (r *rollout) calm() bool {
	for rs, size := range r.size {
		if !settled(rs) || rs.Status.Replicas > size {
			return false
		}
	}
	return true
}

// shares returns the sizes of the ReplicaSets for the present number of replicas. A ReplicaSet that
// is not in the result keeps its size.
func (r *rollout) shares() map[*appsv1.ReplicaSet]int32 {
	active := r.active()
	if only := r.only(active); only != nil {
		if desired, ok := notedReplicas(only, desiredAnnotation); ok && desired != r.want() {
			r.scaled[only] = true // or it would seem to have to be scaled for ever
		}
		return map[*appsv1.ReplicaSet]int32{only: r.want()}
	}
	if len(active) == 0 {
		return nil
	}
	if r.saturated() {
		next := make(map[*appsv1.ReplicaSet]int32)
		for _, rs := range r.old {
			next[rs] = 0
		}
		return next
	}
	if r.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	return r.proportions(active)
}

// only returns the one ReplicaSet with pods or, if there is none, the newest; nil if there are
// several.
func (r *rollout) only(active []*appsv1.ReplicaSet) *appsv1.ReplicaSet {
	switch {
	case len(active) == 1:
		return active[0]
	case len(active) > 1:
		return nil
	case r.current != nil:
		return r.current
	case len(r.old) > 0:
		return r.old[len(r.old)-1]
	}
	return nil
}

// saturated reports whether the current ReplicaSet needs no pods of the old ones.
func (r *rollout) saturated() bool {
	if r.current == nil {
		return false
	}
	desired, ok := notedReplicas(r.current, desiredAnnotation)
	return ok && desired == r.want() && r.size[r.current] == r.want() && r.current.Status.AvailableReplicas == r.want()
}

// proportions divides the pods to add or remove among active, which are several, in proportion to
// their sizes, the largest first. The largest gets what rounding leaves.
func (r *rollout) proportions(active []*appsv1.ReplicaSet) map[*appsv1.ReplicaSet]int32 {
	surge, _ := bounds(r.d)
	var add int32
	if r.want() > 0 {
		add = r.want() + surge
	}
	for _, rs := range active {
		add -= r.size[rs]
	}
	slices.SortFunc(active, func(a, b *appsv1.ReplicaSet) int {
		age := byAge(a, b)
		if add > 0 {
			age = -age // of equals the newer grow first, and the older shrink first
		}
		return cmp.Or(cmp.Compare(r.size[b], r.size[a]), age)
	})
	next := make(map[*appsv1.ReplicaSet]int32, len(active))
	left := add
	for _, rs := range active {
		r.scaled[rs] = true
		share := r.share(rs)
		if add > 0 {
			share = min(share, left)
		} else {
			share = max(share, left)
		}
		if left == 0 {
			share = 0
		}
		next[rs] = r.size[rs] + share
		left -= share
	}
	next[active[0]] = max(0, next[active[0]]+left)
	return next
}

// share returns what rs gains if it keeps its proportion of the maximum number of pods of the
// Deployment.
func (r *rollout) share(rs *appsv1.ReplicaSet) int32 {
	size := r.size[rs]
	if r.want() == 0 {
		return -size
	}
	before, ok := notedReplicas(rs, maxAnnotation)
	if !ok || before == 0 {
		before = r.d.Status.Replicas
	}
	if before == 0 {
		return 0
	}
	surge, _ := bounds(r.d)
	return int32(math.Round(float64(size)*float64(r.want()+surge)/float64(before))) - size
}
