// Package schedule decides which node a pod runs on, and binds it.
//
// A [Predicate] says whether a pod fits a node, a [Priority] how good the node is. A [Scheduler]
// applies them to the pods that name it:
//
//	scheduler, err := schedule.New(schedule.Config{
//		Predicates: predicates.Default(),
//		Priorities: priorities.Default(),
//		Nodes:      nodes, // local caches
//		Pods:       pods,
//		Bind:       bind,
//	})
//	err = scheduler.Run(ctx)
//
// A custom predicate is a function:
//
//	ssd := schedule.PredicateFunc("SSD", func(p *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
//		if n.Node.Labels["disk"] == "ssd" {
//			return schedule.Fits
//		}
//		return schedule.Refuse("node(s) had no SSD")
//	})
//
// A predicate that depends on more than the node is also a [Preparer]: it looks at the [Cluster] once
// for each decision.
//
// [State] is the core, without a clock or IO. It contains the nodes and the requests of their pods,
// and considers all nodes for each decision. The scheduler makes one decision after another. A
// decision is charged to its node at once ([State.Assume]), while binding continues in parallel. A
// failed bind returns the capacity.
//
// After the decision, an [Extension] may keep account of the pod, let it wait, prepare its node, or bind it.
//
// Pods wait in the order of priority and age. A pod that fits no node gets the condition
// PodScheduled with the reason Unschedulable. It is parked until an [Event] helps, or for five
// minutes. An event that changes a node or the pods on it helps the pods that the node accepts
// afterwards, so a predicate that depends on the node alone needs nothing else. All events help a
// pod that a Preparer refused, unless the predicate is a [Waker] and says which do. Of parked pods that are
// alike, one is tried first; see [ClassPredicate].
//
// Failures: a scheduler whose caches are behind may choose a node that is full; the node then
// rejects the pod. One scheduler never binds a pod twice; if two schedulers do, the API server
// refuses the second binding.
//
// [State.Explain] says what a decision makes of each node. A pod with the [ExplainAnnotation] gets a summary of it in
// an event.
//
// A scheduler may have several profiles: each schedules the pods that name it with its own predicates and
// priorities, and all see the same nodes. See [Profile].
//
// If Config.Evict is set, a pod that fits no node preempts pods of lower priority: [State.Preempt] chooses
// them, and the node is reserved for the pod until they have ended. Disruption budgets are violated only
// where no other choice helps.
//
// An [Extender] takes part in decisions by functions that may do IO, such as questions to other programs (package
// extender). The scheduler asks about one pod at a time, without the lock that events and decisions need:
// meanwhile it schedules the pods in which no extender is interested, and pods for the extenders wait in
// their order. Other pods may take a node that the extenders chose; then the pod goes to the next best one
// that has room, or is tried again after its backoff. A pod of lower priority may thus come first. All
// events but heartbeats help a pod that an extender refused.
//
// Package predicates keeps pods pending that need something it does not know, such as resource claims.
// Package volumebinding schedules pods with persistent volumes; without it, their claims are not looked at.
// Package volumes has the predicates about limits, zones and the sharing of volumes.
// Package gang starts the pods of a group together or not at all.
// Package policy reads kube-scheduler's configuration files, and package legacy has the predicates and priorities
// that only its former ones could name.
// Package workload says which pods belong together, for constraints of pods that have none of their own.
package schedule

import (
	"fmt"
	"slices"
	"strings"
)

// A Predicate says whether a pod may run on a node. Filter must not change or keep its arguments,
// and must depend only on them and on the predicate's own configuration. Of the pods on the node it
// must not use the status, whose changes do not wake pods that wait.
//
// A predicate may also be a [Compiler], to be faster, a [Preparer], to depend on the whole cluster,
// and a [Waker], to say which events matter to it.
type Predicate interface {
	Name() string
	Filter(*PodInfo, *NodeInfo) Verdict
}

// A Compiler is a [Predicate] that can do the part of its work that depends only on the pod once
// for all nodes. Compile returns nil if the pod fits all nodes. The function is called by one
// goroutine at a time, also after the decision, when the scheduler asks whether an event helps.
type Compiler interface {
	Predicate
	Compile(*PodInfo) func(*NodeInfo) Verdict
}

// A Priority scores a node for a pod, from 0 to [MaxScore]; other scores are clamped. The rules for
// a predicate's Filter apply to Score. It is called only for nodes that all predicates accept.
//
// Scores count as they are, times their weight, and are not stretched to the range: a priority whose
// scores are all between 0 and 5 has little to say beside one that uses the range. Where the range of a
// value is known, as with a share of the capacity, score value*MaxScore/limit. Where it is not, the
// priority can be a [Normalizer].
//
// A priority may also be a [Surveyor], to depend on the whole cluster.
type Priority interface {
	Name() string
	Score(*PodInfo, *NodeInfo) int64
}

// A Normalizer is a [Priority] whose scores mean something only beside each other. Normalize changes the
// scores of all nodes that a pod can go to, which may be any numbers, into scores from 0 to [MaxScore].
// The scores are in no particular order.
type Normalizer interface {
	Priority
	Normalize(scores []int64)
}

// A Surveyor is a [Priority] whose scores also depend on other nodes, on the pods on them, or on
// namespaces. Survey is called at most once for each decision, with the nodes that all predicates
// accept, of which there are at least two. It returns the score of one of them, or nil if none is
// better than another. Score is not called then.
//
// The rules for the Prepare of a [Preparer] apply to Survey.
type Surveyor interface {
	Priority
	Survey(*PodInfo, Cluster, []*NodeInfo) func(*NodeInfo) int64
}

// MaxScore is the highest score of a priority.
const MaxScore = 100

// Weighted is a priority with a weight. The node with the highest weighted sum wins; ties are
// broken randomly.
type Weighted struct {
	Priority
	// Weight is at least 1; zero means 1.
	Weight int64
}

// Verdict is the answer of a predicate about a node.
type Verdict struct {
	// Reasons are the reasons to refuse the node, each in words that can follow a number of nodes:
	// "Insufficient cpu". No reason means that the pod fits. The slice is shared and must not be
	// changed.
	Reasons []string
	// All says that the reasons are about the pod and hold for all nodes. The message then names only
	// them, without a number of nodes.
	All bool
	// Lasting says that the node would refuse the pod if there were no other pods on it, so that it does
	// not help to preempt them.
	Lasting bool
}

// Fits is the verdict that the pod fits the node.
var Fits = Verdict{}

// Refuse returns the verdict that the pod does not fit the node.
func Refuse(reasons ...string) Verdict { return Verdict{Reasons: reasons} }

// RefuseAlways returns the verdict that the pod does not fit the node, and would not if there were no other
// pods on it.
func RefuseAlways(reasons ...string) Verdict { return Verdict{Reasons: reasons, Lasting: true} }

// RefuseAll returns the verdict that the pod fits no node, for a reason in words of its own: "pod has
// unbound immediate PersistentVolumeClaims".
func RefuseAll(reason string) Verdict { return Verdict{Reasons: []string{reason}, All: true} }

// OK reports whether the pod fits the node.
func (v Verdict) OK() bool { return len(v.Reasons) == 0 }

// PredicateFunc returns a predicate with the function as its Filter.
func PredicateFunc(name string, filter func(*PodInfo, *NodeInfo) Verdict) Predicate {
	return predicateFunc{name, filter}
}

type predicateFunc struct {
	name   string
	filter func(*PodInfo, *NodeInfo) Verdict
}

func (f predicateFunc) Name() string                           { return f.name }
func (f predicateFunc) Filter(p *PodInfo, n *NodeInfo) Verdict { return f.filter(p, n) }

// PriorityFunc returns a priority with the function as its Score.
func PriorityFunc(name string, score func(*PodInfo, *NodeInfo) int64) Priority {
	return priorityFunc{name, score}
}

type priorityFunc struct {
	name  string
	score func(*PodInfo, *NodeInfo) int64
}

func (f priorityFunc) Name() string                        { return f.name }
func (f priorityFunc) Score(p *PodInfo, n *NodeInfo) int64 { return f.score(p, n) }

// FitError means that a pod fits no node.
type FitError struct {
	// Pod is the pod's namespace and name.
	Pod string
	// Nodes is the number of nodes.
	Nodes int
	// Reasons counts the nodes by reason.
	Reasons map[string]int
	// Whole is the reason that holds for all nodes, or empty.
	Whole string
	// Preemption says why no preemption helps; empty if none was looked for or one does.
	Preemption string
	// PreemptionFailed says that Preemption is an error of an extender.
	PreemptionFailed bool

	// The fields below are for State.Helps.
	pod     *PodInfo
	lasting int // the nodes that refuse the pod whatever other pods are there
	local   []filter
	by      refusers // of the nodes checked so far
	// afterwards says that the extension of that name has refused the pod after the decision. waker, if not
	// nil, is that extension and knows which events can help.
	afterwards bool
	extension  string
	waker      Waker
	// extended are the nodes that extenders refuse, and whether whatever other pods are there.
	extended map[string]bool
}

// Error returns Kubernetes' message for such events.
func (e *FitError) Error() string {
	if e.Nodes == 0 {
		return "no nodes available to schedule pods"
	}
	if e.Whole != "" {
		return withPreemption(fmt.Sprintf("0/%d nodes are available: %s.", e.Nodes, e.Whole), e.Preemption)
	}
	var reasons []string
	for reason, nodes := range e.Reasons {
		reasons = append(reasons, fmt.Sprintf("%d %s", nodes, reason))
	}
	slices.Sort(reasons)
	message := fmt.Sprintf("0/%d nodes are available: %s.", e.Nodes, strings.Join(reasons, ", "))
	if e.Preemption != "" && !e.PreemptionFailed {
		message += " " + noNewClaims
	}
	return withPreemption(message, e.Preemption)
}

// noNewClaims quotes kube-scheduler's plugin DynamicResources about a pod without resource claims. It precedes
// the reason of preemption, unless one reason holds for all nodes.
const noNewClaims = "no new claims to deallocate,"
