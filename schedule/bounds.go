package schedule

import corev1 "k8s.io/api/core/v1"

// MaxTerms bounds the terms and topology spread constraints of a pod, each of which a decision compares with all
// pods. A term counts once for each of its namespaces. A pod with more fits no node, see [TooManyTerms].
const MaxTerms = maxCounts

// TooManyTerms reports whether a pod has more than MaxTerms. Its affinity does not count then, for other pods either.
func TooManyTerms(pod *corev1.Pod) bool {
	n := len(pod.Spec.TopologySpreadConstraints)
	add := func(t *corev1.PodAffinityTerm) { n += max(1, len(t.Namespaces)) }
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		eachTerm(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, add)
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		eachTerm(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, add)
	}
	return n > MaxTerms
}

func eachTerm(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, do func(*corev1.PodAffinityTerm)) {
	for i := range required {
		do(&required[i])
	}
	for i := range preferred {
		do(&preferred[i].PodAffinityTerm)
	}
}

// MaxNodeTerms bounds the requirements of node affinity and the tolerations of a pod, each of which a decision compares
// with all nodes. They count once more for each topology spread constraint, which needs to know the nodes that count for it. A pod
// with more fits no node, see [TooManyNodeTerms].
const MaxNodeTerms = 2048

// TooManyNodeTerms reports whether a pod has more than MaxNodeTerms.
func TooManyNodeTerms(pod *corev1.Pod) bool {
	n := len(pod.Spec.Tolerations)
	add := func(t *corev1.NodeSelectorTerm) { n += max(1, len(t.MatchExpressions)+len(t.MatchFields)) }
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		if required := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			for i := range required.NodeSelectorTerms {
				add(&required.NodeSelectorTerms[i])
			}
		}
		for i := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			add(&a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)
		}
	}
	return n*(1+len(pod.Spec.TopologySpreadConstraints)) > MaxNodeTerms
}
