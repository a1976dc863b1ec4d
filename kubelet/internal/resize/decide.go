package resize

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/planekit/planekit/internal/usage"
	"github.com/planekit/planekit/kubelet/internal/qos"
	corev1 "k8s.io/api/core/v1"
)

// Node holds the state of a node by which a resize is judged.
type Node struct {
	Allocatable corev1.ResourceList
	// Pods are the pods on the node that have not ended, at their allocated sizes.
	Pods []*corev1.Pod
	// StaticCPU means that containers have CPUs of their own, which cannot change while they run.
	StaticCPU bool
}

// A Refusal is why a resize is pending.
type Refusal struct {
	// Reason is Infeasible, or the reason with which the node refuses a new pod of that size. The
	// resize is then deferred.
	Reason  string
	Message string
	// Detail names what makes a resize infeasible, in the words of Kubernetes' metrics.
	Detail string
}

// Condition returns the reason in the condition PodResizePending.
func (r *Refusal) Condition() string {
	if r.Reason == corev1.PodReasonInfeasible {
		return r.Reason
	}
	return corev1.PodReasonDeferred
}

// Decide reports whether a pod can have the size in its spec in place of the allocated one; nil
// means that it can.
func Decide(pod, allocated *corev1.Pod, node Node) *Refusal {
	if node.StaticCPU && qos.Class(pod) == corev1.PodQOSGuaranteed && changesCPU(pod, allocated) {
		return &Refusal{
			Reason: corev1.PodReasonInfeasible, Message: `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`,
			Detail: "guaranteed_pod_cpu_manager_static_policy",
		}
	}
	wants, used := Requests(pod), corev1.ResourceList{}
	for _, other := range node.Pods {
		if other.UID != pod.UID {
			usage.Add(used, usage.Requests(other))
		}
	}
	for _, r := range []struct {
		name   corev1.ResourceName
		reason string
	}{{corev1.ResourceCPU, "OutOfcpu"}, {corev1.ResourceMemory, "OutOfmemory"}} {
		want, have, all := amount(wants, r.name), amount(used, r.name), amount(node.Allocatable, r.name)
		if want > 0 && want > all-have {
			message := fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", r.name, want, have, all)
			return &Refusal{Reason: r.reason, Message: message}
		}
	}
	return nil
}

// amount returns cpu in thousandths and everything else in units. More than an int64 holds is its maximum:
// a Quantity would return a small or negative number, which fits everywhere.
func amount(list corev1.ResourceList, name corev1.ResourceName) int64 {
	q := list[name]
	most := int64(math.MaxInt64)
	if name == corev1.ResourceCPU {
		most /= 1000
	}
	switch {
	case q.CmpInt64(most) > 0:
		return math.MaxInt64
	case name == corev1.ResourceCPU:
		return q.MilliValue()
	}
	return q.Value()
}

func changesCPU(pod, allocated *corev1.Pod) bool {
	now, before := Of(pod), Of(allocated)
	for name, r := range now.Containers {
		if amount(r.Requests, corev1.ResourceCPU) != amount(before.Containers[name].Requests, corev1.ResourceCPU) {
			return true
		}
	}
	return false
}

// Pending is a pod whose resize has not been allocated.
type Pending struct {
	Pod, Allocated *corev1.Pod
	// Since is when the resize was first deferred; zero if it was not yet.
	Since time.Time
}

// Sort sorts resizes in the order in which they are decided: those that request no more than before,
// then by the pod's priority, then Guaranteed pods, then those deferred longest.
func Sort(list []Pending) {
	slices.SortStableFunc(list, func(a, b Pending) int {
		return cmp.Or(
			cmp.Compare(rank(a.grows()), rank(b.grows())),
			cmp.Compare(priority(b.Pod), priority(a.Pod)),
			cmp.Compare(rank(qos.Class(a.Pod) != corev1.PodQOSGuaranteed), rank(qos.Class(b.Pod) != corev1.PodQOSGuaranteed)),
			cmp.Compare(rank(a.Since.IsZero()), rank(b.Since.IsZero())),
			a.Since.Compare(b.Since),
			cmp.Compare(a.Pod.UID, b.Pod.UID), // not by chance
		)
	})
}

func (p *Pending) grows() bool {
	now, before := Requests(p.Pod), Requests(p.Allocated)
	return now.Cpu().Cmp(*before.Cpu()) > 0 || now.Memory().Cmp(*before.Memory()) > 0
}

// rank returns 0 for false, which comes first, and 1 for true.
func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// Frees reports whether a change of a pod may make room for another pod: it has ended, or uses less.
func Frees(old, pod *corev1.Pod) bool {
	if Ended(pod) {
		return !Ended(old)
	}
	now, before := usage.Requests(pod), usage.Requests(old)
	return now.Cpu().Cmp(*before.Cpu()) < 0 || now.Memory().Cmp(*before.Memory()) < 0
}

// Ended reports whether a pod has ended, so that it takes no resources.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
