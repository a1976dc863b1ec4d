package apiserver

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// doom decides what a delete means for obj, a copy of the stored object. It
// reports whether the object stays for a while, and has marked it then as being
// deleted: a deletionTimestamp in the future for grace, now for finalizers.
func (k *kind) doom(obj runtime.Object, o *metav1.DeleteOptions, now time.Time) (stays bool) {
	m := accessor(obj)
	m.SetFinalizers(k.finalizers(m.GetFinalizers(), o))
	waits := k.grace(obj, o, now)
	if !waits && len(m.GetFinalizers()) == 0 && (k.Strategy.Finalizing == nil || !k.Strategy.Finalizing(obj)) {
		return false
	}
	if m.GetDeletionTimestamp() == nil {
		mark(m, now, 0)
	}
	if k.Strategy.PrepareForDelete != nil {
		k.Strategy.PrepareForDelete(obj)
	}
	return true
}

// grace applies the kind's grace period and reports whether obj waits for it.
// A period that has begun can only be made shorter.
func (k *kind) grace(obj runtime.Object, o *metav1.DeleteOptions, now time.Time) bool {
	m := accessor(obj)
	if k.Strategy.Grace == nil {
		return false
	}
	if m.GetDeletionTimestamp() == nil {
		seconds := k.Strategy.Grace(obj, o)
		if seconds <= 0 {
			return false
		}
		mark(m, now, seconds)
		return true
	}
	begun := m.GetDeletionGracePeriodSeconds()
	if begun == nil || *begun == 0 {
		return false
	}
	if o.GracePeriodSeconds == nil || *o.GracePeriodSeconds >= *begun {
		return true
	}
	seconds := *o.GracePeriodSeconds
	at := metav1.NewTime(m.GetDeletionTimestamp().Add(time.Duration(seconds-*begun) * time.Second))
	m.SetDeletionTimestamp(&at)
	m.SetDeletionGracePeriodSeconds(&seconds)
	return seconds > 0
}

// mark begins a deletion. What controllers shall do with the object changes
// with it, so its generation, if it has one, is raised.
func mark(m metav1.Object, now time.Time, seconds int64) {
	at := metav1.NewTime(now.Add(time.Duration(seconds) * time.Second)).Rfc3339Copy()
	m.SetDeletionTimestamp(&at)
	m.SetDeletionGracePeriodSeconds(&seconds)
	if m.GetGeneration() > 0 {
		m.SetGeneration(m.GetGeneration() + 1)
	}
}

// finalizers returns have with what the propagation policy makes of the two
// that the garbage collector answers to. Without a policy those which are there
// stay, and the kind's own policy applies where there are none.
func (k *kind) finalizers(have []string, o *metav1.DeleteOptions) []string {
	policy := k.Strategy.GarbageCollection
	//lint:ignore SA1019 old clients still send it
	orphan := o.OrphanDependents
	switch {
	case o.PropagationPolicy != nil:
		policy = *o.PropagationPolicy
	case orphan != nil && *orphan:
		policy = metav1.DeletePropagationOrphan
	case orphan != nil:
		policy = metav1.DeletePropagationBackground
	case slices.Contains(have, metav1.FinalizerOrphanDependents), slices.Contains(have, metav1.FinalizerDeleteDependents):
		return have
	}
	want := slices.DeleteFunc(slices.Clone(have), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	switch policy {
	case metav1.DeletePropagationOrphan:
		want = append(want, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		want = append(want, metav1.FinalizerDeleteDependents)
	}
	return want
}
