package admission

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/internal/qos"
	corev1 "k8s.io/api/core/v1"
)

// The reason and the messages of a pod that ends for a critical one.
const (
	ReasonPreempting       = "Preempting"
	MessagePreempting      = "Preempted in order to admit critical pod"
	MessageDisruptionOfPod = "Pod was preempted by Kubelet to accommodate a critical pod."
)

// Victims chooses the other pods whose end gives pod what it is short of. It prefers pods without
// requests to those with limits, few pods to many, and small requests to large ones. It returns an
// error if not even all of them suffice.
func Victims(pod *corev1.Pod, others []*corev1.Pod, short []Shortage) ([]*corev1.Pod, error) {
	var classes [len(order)][]candidate
	for _, other := range others {
		if preemptable(pod, other) {
			c := newCandidate(other)
			classes[c.class] = append(classes[c.class], c)
		}
	}
	need := missing{}
	for _, s := range short {
		need[s.Resource] = s.Missing()
	}
	bestEffort, burstable, guaranteed := classes[0], classes[1], classes[2]
	// Of each class, choose what is missing after all of the lower classes, and what was already
	// chosen of the higher ones.
	fromGuaranteed, err := choose(guaranteed, need.without(bestEffort, burstable))
	if err != nil {
		return nil, err
	}
	fromBurstable, err := choose(burstable, need.without(bestEffort, fromGuaranteed))
	if err != nil {
		return nil, err
	}
	fromBestEffort, err := choose(bestEffort, need.without(fromBurstable, fromGuaranteed))
	if err != nil {
		return nil, err
	}
	var victims []*corev1.Pod
	for _, c := range slices.Concat(fromBestEffort, fromBurstable, fromGuaranteed) {
		victims = append(victims, c.pod)
	}
	return victims, nil
}

// preemptable reports whether other may end for pod.
func preemptable(pod, other *corev1.Pod) bool {
	if eviction.Critical(pod) && !eviction.Critical(other) {
		return true
	}
	return pod.Spec.Priority != nil && other.Spec.Priority != nil && *pod.Spec.Priority > *other.Spec.Priority
}

// order is the order in which pods end, by their quality of service.
var order = [...]corev1.PodQOSClass{corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed}

// candidate is a pod that may end, with what it gives back.
type candidate struct {
	pod   *corev1.Pod
	gives Amounts
	class int // an index of order
}

func newCandidate(pod *corev1.Pod) candidate {
	c := candidate{pod: pod, gives: Requests(pod), class: slices.Index(order[:], qos.Class(pod))}
	c.gives[corev1.ResourcePods] = 1
	return c
}

// smaller reports whether c requests no more than other, in memory and then in cpu.
func (c candidate) smaller(other candidate) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
		if a, b := c.gives[name], other.gives[name]; a != b {
			return a < b
		}
	}
	return true
}

// missing holds how much is missing of resources; all are more than zero.
type missing map[corev1.ResourceName]int64

// without returns what is missing once candidates have ended.
func (m missing) without(lists ...[]candidate) missing {
	rest := missing{}
	for name, n := range m {
		for _, c := range slices.Concat(lists...) {
			if n -= c.gives[name]; n <= 0 {
				break
			}
		}
		if n > 0 {
			rest[name] = n
		}
	}
	return rest
}

// distance returns how far a candidate is from what is missing: the sum of the squares of the parts
// that it would leave missing.
func (m missing) distance(c candidate) float64 {
	sum := 0.0
	for name, n := range m {
		if left := n - c.gives[name]; left > 0 {
			sum += math.Pow(float64(left)/float64(n), 2)
		}
	}
	return sum
}

// choose returns candidates that give back what is missing, each time the one that leaves the least.
func choose(candidates []candidate, need missing) ([]candidate, error) {
	candidates = slices.Clone(candidates)
	var chosen []candidate
	for len(need) > 0 {
		if len(candidates) == 0 {
			return nil, need.err()
		}
		best := 0
		for i, c := range candidates {
			if d, least := need.distance(c), need.distance(candidates[best]); d < least || d == least && c.smaller(candidates[best]) {
				best = i
			}
		}
		need = need.without(candidates[best : best+1])
		chosen = append(chosen, candidates[best])
		candidates = slices.Delete(candidates, best, best+1)
	}
	return chosen, nil
}

func (m missing) err() error {
	var text strings.Builder
	for _, name := range sortedNames(m) {
		fmt.Fprintf(&text, "(res: %v, q: %d), ", name, m[name])
	}
	return errors.New("no set of running pods found to reclaim resources: [" + text.String() + "]")
}

// sortedNames returns the names of resources, the core ones first.
func sortedNames[V any](m map[corev1.ResourceName]V) []corev1.ResourceName {
	var names []corev1.ResourceName
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b corev1.ResourceName) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(string(a), string(b))
	})
	return names
}

// rank returns the place of a resource in messages.
func rank(name corev1.ResourceName) int {
	switch i := slices.Index(core, name); {
	case name == corev1.ResourcePods:
		return 0
	case i >= 0:
		return 1 + i
	}
	return 1 + len(core)
}
