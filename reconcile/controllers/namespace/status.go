package namespace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// emptying is the result of one pass over the contents of a namespace.
type emptying struct {
	// unknown is why not all resources are known.
	unknown  error
	failures []error
	// remaining has a text for each resource with objects left, finalizers how
	// many objects wait for each.
	remaining  []string
	finalizers map[string]int
}

func (e *emptying) add(resource schema.GroupResource, r Remaining) {
	if r.Objects > 0 {
		e.remaining = append(e.remaining, fmt.Sprintf("%s.%s has %d resource instances", resource.Resource, resource.Group, r.Objects))
	}
	for finalizer, n := range r.Finalizers {
		if e.finalizers == nil {
			e.finalizers = make(map[string]int)
		}
		e.finalizers[finalizer] += n
	}
}

// done reports whether the namespace is known to be empty.
func (e *emptying) done() bool {
	return e.unknown == nil && len(e.failures) == 0 && len(e.remaining) == 0
}

// conditions returns the conditions of a namespace after the pass, with the
// reasons and texts of Kubernetes, and whether they differ from those before.
func (e *emptying) conditions(before []corev1.NamespaceCondition, now metav1.Time) (after []corev1.NamespaceCondition, changed bool) {
	after = slices.Clone(before)
	for _, c := range e.verdicts() {
		c.LastTransitionTime = now
		i := slices.IndexFunc(after, func(old corev1.NamespaceCondition) bool { return old.Type == c.Type })
		switch {
		case i < 0:
			after, changed = append(after, c), true
		case after[i].Status != c.Status:
			after[i], changed = c, true
		case after[i].Reason != c.Reason || after[i].Message != c.Message:
			c.LastTransitionTime = after[i].LastTransitionTime
			after[i], changed = c, true
		}
	}
	return after, changed
}

// verdicts are the five conditions of a namespace that is being deleted.
func (e *emptying) verdicts() []corev1.NamespaceCondition {
	var waits []string
	for _, finalizer := range slices.Sorted(maps.Keys(e.finalizers)) {
		waits = append(waits, fmt.Sprintf("%s in %d resource instances", finalizer, e.finalizers[finalizer]))
	}
	verdict := func(kind corev1.NamespaceConditionType, is bool, reason, message, otherReason, otherMessage string) corev1.NamespaceCondition {
		if is {
			return corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message}
		}
		return corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionFalse, Reason: otherReason, Message: otherMessage}
	}
	var unknown string
	if e.unknown != nil {
		unknown = e.unknown.Error()
	}
	var failures []string
	for _, err := range e.failures {
		failures = append(failures, err.Error())
	}
	// The order of the resources may differ from pass to pass.
	slices.Sort(failures)
	remaining := slices.Sorted(slices.Values(e.remaining))
	return []corev1.NamespaceCondition{
		verdict(corev1.NamespaceDeletionDiscoveryFailure, e.unknown != nil, "DiscoveryFailed", unknown,
			"ResourcesDiscovered", "All resources successfully discovered"),
		verdict(corev1.NamespaceDeletionGVParsingFailure, false, "", "",
			"ParsedGroupVersions", "All legacy kube types successfully parsed"),
		verdict(corev1.NamespaceDeletionContentFailure, len(failures) > 0, "ContentDeletionFailed",
			fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(failures), strings.Join(failures, ", ")),
			"ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
		verdict(corev1.NamespaceContentRemaining, len(e.remaining) > 0, "SomeResourcesRemain", "Some resources are remaining: "+strings.Join(remaining, ", "),
			"ContentRemoved", "All content successfully removed"),
		verdict(corev1.NamespaceFinalizersRemaining, len(waits) > 0, "SomeFinalizersRemain",
			"Some content in the namespace has finalizers remaining: "+strings.Join(waits, ", "),
			"ContentHasNoFinalizers", "All content-preserving finalizers finished"),
	}
}
