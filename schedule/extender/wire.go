package extender

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The types below are the bodies of questions and answers, as in version 1 of kube-scheduler's protocol
// (k8s.io/kube-scheduler/extender/v1). Fields have no tags, because those have none.

// MaxScore is the highest score that an extender should give a node; the lowest is 0.
const MaxScore = 10

// Args asks which nodes a pod can go to, and how good they are. Kubernetes calls it ExtenderArgs.
type Args struct {
	Pod *corev1.Pod
	// Nodes are the nodes, unless the extender is [Config].NodeCacheCapable.
	Nodes *corev1.NodeList
	// NodeNames are their names, if it is.
	NodeNames *[]string
}

// FailedNodes holds the reasons to refuse nodes, by their names.
type FailedNodes map[string]string

// FilterResult answers the question to filter nodes. Kubernetes calls it ExtenderFilterResult.
type FilterResult struct {
	// Nodes or NodeNames are the accepted nodes. An extender uses the field that was used to ask it.
	Nodes     *corev1.NodeList
	NodeNames *[]string
	// FailedNodes are refused.
	FailedNodes FailedNodes
	// FailedAndUnresolvableNodes are refused whatever other pods are on them. A node that is in
	// FailedNodes as well counts as here.
	FailedAndUnresolvableNodes FailedNodes
	// Error, if not empty, says that the question could not be answered.
	Error string
}

// HostPriority is the score of a node.
type HostPriority struct {
	Host string
	// Score is from 0 to [MaxScore].
	Score int64
}

// HostPriorityList answers the question to prioritize nodes.
type HostPriorityList []HostPriority

// PreemptionArgs asks which pods should end so that another one fits a node, by the names of nodes.
// Kubernetes calls it ExtenderPreemptionArgs.
type PreemptionArgs struct {
	Pod *corev1.Pod
	// NodeNameToVictims holds the victims that the scheduler found, unless the extender is
	// [Config].NodeCacheCapable.
	NodeNameToVictims map[string]*Victims
	// NodeNameToMetaVictims is the same with UIDs of pods alone, if it is.
	NodeNameToMetaVictims map[string]*MetaVictims
}

// Victims are pods on a node that should end.
type Victims struct {
	Pods []*corev1.Pod
	// NumPDBViolations counts those that disruption budgets protect.
	NumPDBViolations int64
}

// MetaVictims are pods on a node that should end, by their UIDs.
type MetaVictims struct {
	Pods []*MetaPod
	// NumPDBViolations counts those that disruption budgets protect.
	NumPDBViolations int64
}

// MetaPod names a pod.
type MetaPod struct{ UID string }

// PreemptionResult answers with the nodes where pods should end, which may be fewer or others than the
// scheduler found. Kubernetes calls it ExtenderPreemptionResult.
type PreemptionResult struct {
	NodeNameToMetaVictims map[string]*MetaVictims
}

// BindingArgs asks to bind a pod to a node. Kubernetes calls it ExtenderBindingArgs.
type BindingArgs struct {
	PodName, PodNamespace string
	PodUID                types.UID
	Node                  string
}

// BindingResult answers whether a pod is bound. Kubernetes calls it ExtenderBindingResult.
type BindingResult struct {
	// Error, if not empty, says why the pod is not bound.
	Error string
}
