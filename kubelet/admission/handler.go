// Package admission decides on a node whether it takes a pod that was bound to it. The node has the
// last word: a scheduler may have seen an older node, and a pod may have been bound without one.
//
//	handlers, err := admission.Handlers(admission.Host{Kernel: "6.1.0"})
//	verdict, victims := admission.Decide(admission.Request{Pod: pod, Others: running, Node: node}, handlers)
//
// The package is pure: it reads neither the machine nor a clock, and evicts nothing. The checks,
// their order, reasons and messages are those of Kubernetes' kubelet. A program adds a check of its
// own as one more [Handler].
//
// A critical pod that lacks nothing but resources is admitted in place of other pods: [Decide] names
// the victims that must end before it starts.
package admission

import (
	"fmt"

	"github.com/planekit/planekit/kubelet/eviction"
	corev1 "k8s.io/api/core/v1"
)

// Request is a pod that a node admits or refuses. Handlers must not change what it points to.
type Request struct {
	Pod *corev1.Pod
	// Others are the other pods that hold resources of the node. Their specs have the resources that
	// were allocated to them.
	Others []*corev1.Pod
	// Node has the labels, the taints and the allocatable resources of the node.
	Node *corev1.Node
}

// Verdict is the answer to a Request. The zero Verdict admits the pod.
type Verdict struct {
	// Reason is the reason in the status of a refused pod, and of the event about it.
	Reason string
	// Message is the message of the event. The status has "Pod was rejected: " before it.
	Message string
	// Short lists the resources that a refused pod lacks, if it was refused for nothing else.
	Short []Shortage
}

// Admits reports whether the pod may start.
func (v Verdict) Admits() bool { return v.Reason == "" }

// Handler is one check. Admit must be safe for concurrent use, and must not block.
type Handler interface {
	Admit(Request) Verdict
}

// HandlerFunc is a function that is a Handler.
type HandlerFunc func(Request) Verdict

// Admit calls f.
func (f HandlerFunc) Admit(r Request) Verdict { return f(r) }

// Reasons of refusals that are not those of one handler.
const (
	ReasonInvalidNode = "InvalidNodeInfo"
	ReasonUnexpected  = "UnexpectedAdmissionError"
)

// Decide asks handlers in order and returns the first refusal. A critical pod that lacks only
// resources is admitted; victims are then the pods that must end before it starts.
func Decide(r Request, handlers []Handler) (v Verdict, victims []*corev1.Pod) {
	var short []Shortage
	for _, h := range handlers {
		v := h.Admit(r)
		switch {
		case v.Admits():
		case len(v.Short) > 0 && eviction.Critical(r.Pod):
			short = append(short, v.Short...)
		default:
			return v, nil
		}
	}
	if len(short) == 0 {
		return Verdict{}, nil
	}
	victims, err := Victims(r.Pod, r.Others, short)
	if err != nil {
		return Verdict{Reason: ReasonUnexpected, Message: fmt.Sprintf(
			"Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: %v", err)}, nil
	}
	return Verdict{}, victims
}
