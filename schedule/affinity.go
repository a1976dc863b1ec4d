package schedule

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/planekit/planekit/internal/selector"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Affinity holds what a pod says about other pods. Anti-affinity keeps them apart.
type Affinity struct {
	// Required terms must be met by the node, and RequiredAnti terms must not.
	Required, RequiredAnti []AffinityTerm
	// Preferred terms make a node better or, if their weight is negative, worse.
	Preferred []AffinityTerm
}

// An AffinityTerm selects pods. It is about the nodes with the same value of the label TopologyKey as
// the node that a selected pod is on.
type AffinityTerm struct {
	TopologyKey string
	// Weight is between -100 and 100 for a preferred term, and 0 for a required one.
	Weight int64
	// Selector selects pods by their labels. A selector that is invalid, or missing, selects none.
	Selector labels.Selector
	// Namespaces are the names of the namespaces of the pods.
	Namespaces []string
	// NamespaceSelector selects further namespaces by their labels. Nil selects none.
	NamespaceSelector labels.Selector

	id string // the same for the same terms
}

// Matches reports whether the term selects pod. A namespace that c does not know has no labels, and only
// a selector of all namespaces selects it.
func (t *AffinityTerm) Matches(pod *corev1.Pod, c Cluster) bool {
	return t.Selector.Matches(labels.Set(pod.Labels)) && t.inNamespace(pod.Namespace, c)
}

func (t *AffinityTerm) inNamespace(name string, c Cluster) bool {
	if slices.Contains(t.Namespaces, name) {
		return true
	}
	if t.NamespaceSelector == nil || t.NamespaceSelector.Empty() {
		return t.NamespaceSelector != nil
	}
	namespace, ok := c.Namespace(name)
	return ok && t.NamespaceSelector.Matches(labels.Set(namespace.Labels))
}

// newAffinity returns nil if the pod says nothing about other pods, or too much.
func newAffinity(pod *corev1.Pod) *Affinity {
	spec := pod.Spec.Affinity
	if spec == nil || spec.PodAffinity == nil && spec.PodAntiAffinity == nil || TooManyTerms(pod) {
		return nil
	}
	a := &Affinity{}
	if s := spec.PodAffinity; s != nil {
		a.Required = newTerms(pod, s.RequiredDuringSchedulingIgnoredDuringExecution)
		a.Preferred = weighted(pod, s.PreferredDuringSchedulingIgnoredDuringExecution, 1)
	}
	if s := spec.PodAntiAffinity; s != nil {
		a.RequiredAnti = newTerms(pod, s.RequiredDuringSchedulingIgnoredDuringExecution)
		a.Preferred = append(a.Preferred, weighted(pod, s.PreferredDuringSchedulingIgnoredDuringExecution, -1)...)
	}
	if len(a.Required)+len(a.RequiredAnti)+len(a.Preferred) == 0 {
		return nil
	}
	return a
}

func newTerms(pod *corev1.Pod, list []corev1.PodAffinityTerm) []AffinityTerm {
	var all []AffinityTerm
	for i := range list {
		all = append(all, newTerm(pod, &list[i], 0))
	}
	return all
}

func weighted(pod *corev1.Pod, list []corev1.WeightedPodAffinityTerm, sign int64) []AffinityTerm {
	var all []AffinityTerm
	for i := range list {
		all = append(all, newTerm(pod, &list[i].PodAffinityTerm, sign*int64(list[i].Weight)))
	}
	return all
}

// newTerm returns a term of a pod. MatchLabelKeys and MismatchLabelKeys are not looked at: the API server
// has added them to the selector when the pod was created.
func newTerm(pod *corev1.Pod, t *corev1.PodAffinityTerm, weight int64) AffinityTerm {
	term := AffinityTerm{TopologyKey: t.TopologyKey, Weight: weight, Selector: selector.OrNothing(t.LabelSelector), Namespaces: t.Namespaces}
	if t.NamespaceSelector != nil {
		term.NamespaceSelector = selector.OrNothing(t.NamespaceSelector)
	} else if len(t.Namespaces) == 0 {
		term.Namespaces = []string{pod.Namespace}
	}
	term.id = fmt.Sprintf("%q %d %s %q %s", term.TopologyKey, weight, selectorText(term.Selector), slices.Sorted(slices.Values(term.Namespaces)),
		selectorText(term.NamespaceSelector))
	return term
}

// selectorText returns a text that is the same only for selectors that select the same.
func selectorText(s labels.Selector) string {
	if s == nil {
		return "nil"
	}
	if _, selectable := s.Requirements(); !selectable {
		return "nothing"
	}
	return strconv.Quote(s.String())
}
