// Package schedule decides on which node a pod runs, and binds it there.
//
// A [Predicate] says whether a node will do, a [Priority] how good it is. A
// [Scheduler] puts them to work for the pods that ask for it by name:
//
//	scheduler, err := schedule.New(schedule.Config{
//		Predicates: predicates.Default(),
//		Priorities: priorities.Default(),
//		Nodes:      nodes, // local copies, see Cache
//		Pods:       pods,
//		Bind:       bind,
//	})
//	err = scheduler.Run(ctx)
//
// A predicate of one's own is a function:
//
//	ssd := schedule.PredicateFunc("SSD", func(p *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
//		if n.Node.Labels["disk"] == "ssd" {
//			return schedule.Fits
//		}
//		return schedule.Refuse("node(s) had no SSD")
//	})
//
// The model: [State] is the pure core, with no clock and no IO. It knows the
// nodes and what the pods on them request, and decides over all nodes, not
// over a sample. The scheduler makes one decision after the other, each upon
// the outcome of those before: a decision is charged to its node at once
// ([State.Assume]), binding goes on beside. A bind that fails gives the
// capacity back.
//
// Pods wait in the order of priority and age. A pod for which no node will do
// is told so (the condition PodScheduled, reason Unschedulable) and parked until
// something happens that may help, or five minutes have passed.
//
// How it fails: a scheduler that falls behind the truth may choose a node that
// is full by now; the node refuses the pod then. It never binds one pod twice
// by itself; the API server refuses it when two schedulers do.
//
// What it leaves out: preemption, affinity between pods, spreading, volumes. Package predicates
// keeps pods pending that require affinity or spreading.
package schedule

import (
	"fmt"
	"slices"
	"strings"
)

// A Predicate says whether a pod may run on a node. Filter must change
// neither, must keep neither, and must depend on nothing else but what it knows
// since it was made.
type Predicate interface {
	Name() string
	Filter(*PodInfo, *NodeInfo) Verdict
}

// A Compiler is a [Predicate] which can do the part of its work that depends on
// the pod alone once for all nodes. Compile returns nil if all nodes will do.
// The function is called by one goroutine at a time.
type Compiler interface {
	Predicate
	Compile(*PodInfo) func(*NodeInfo) Verdict
}

// A Priority says how good a node is for a pod, from 0 to [MaxScore]; what is
// outside counts as the nearest. Score has the duties of a predicate's Filter.
// It is only asked about nodes which all predicates accept.
type Priority interface {
	Name() string
	Score(*PodInfo, *NodeInfo) int64
}

// MaxScore is the best score of a priority.
const MaxScore = 100

// Weighted is a priority whose score is multiplied. The node with the highest
// sum wins; among several, chance decides.
type Weighted struct {
	Priority
	// Weight is at least 1; zero means 1.
	Weight int64
}

// Verdict is what a predicate says about a node.
type Verdict struct {
	// Reasons say why the node will not do, each in the words that follow a
	// number of nodes: "Insufficient cpu". None means that it will. The slice is
	// shared and never changed.
	Reasons []string
}

// Fits is the verdict that a node will do.
var Fits = Verdict{}

// Refuse returns the verdict that a node will not do.
func Refuse(reasons ...string) Verdict { return Verdict{reasons} }

// OK tells whether the node will do.
func (v Verdict) OK() bool { return len(v.Reasons) == 0 }

// PredicateFunc makes a predicate of a function.
func PredicateFunc(name string, filter func(*PodInfo, *NodeInfo) Verdict) Predicate {
	return predicateFunc{name, filter}
}

type predicateFunc struct {
	name   string
	filter func(*PodInfo, *NodeInfo) Verdict
}

func (f predicateFunc) Name() string                           { return f.name }
func (f predicateFunc) Filter(p *PodInfo, n *NodeInfo) Verdict { return f.filter(p, n) }

// PriorityFunc makes a priority of a function.
func PriorityFunc(name string, score func(*PodInfo, *NodeInfo) int64) Priority {
	return priorityFunc{name, score}
}

type priorityFunc struct {
	name  string
	score func(*PodInfo, *NodeInfo) int64
}

func (f priorityFunc) Name() string                        { return f.name }
func (f priorityFunc) Score(p *PodInfo, n *NodeInfo) int64 { return f.score(p, n) }

// FitError says that no node will do.
type FitError struct {
	// Pod is the pod's namespace and name.
	Pod string
	// Nodes is the number of nodes there are.
	Nodes int
	// Reasons counts the nodes for each reason.
	Reasons map[string]int
}

// Error returns the message that users of Kubernetes know from events.
func (e *FitError) Error() string {
	if e.Nodes == 0 {
		return "no nodes available to schedule pods"
	}
	var reasons []string
	for reason, nodes := range e.Reasons {
		reasons = append(reasons, fmt.Sprintf("%d %s", nodes, reason))
	}
	slices.Sort(reasons)
	return fmt.Sprintf("0/%d nodes are available: %s.", e.Nodes, strings.Join(reasons, ", "))
}
