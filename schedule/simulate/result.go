package simulate

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A Result says how a policy did on a workload. Times are from the beginning of the simulation; in JSON
// they are in nanoseconds.
type Result struct {
	// Policy is the name of the policy.
	Policy string `json:"policy"`
	// Nodes is the number of nodes, and Resources what pods request of them. The requests of CPU are
	// always there.
	Nodes     int                   `json:"nodes"`
	Resources []corev1.ResourceName `json:"resources"`
	// End is the time of the last change, or Workload.Until.
	End time.Duration `json:"end"`
	// Pods are the pods in the order of their arrival.
	Pods  []Placement `json:"pods"`
	Waits Waits       `json:"waits"`
	// Preemptions are in the order of time.
	Preemptions []Preemption `json:"preemptions"`
	// Decisions counts the attempts to place a pod.
	Decisions int `json:"decisions"`
	// Samples are the usage over time: that of each instant, or where there are more than 2,000 of each
	// second, fourth ... one. Mean is the mean over time and Peak the highest of each value, of all instants.
	Samples []Sample `json:"samples"`
	Mean    Usage    `json:"mean"`
	Peak    Usage    `json:"peak"`
}

// Outcome is the state of a pod at the end.
type Outcome string

// The outcomes.
const (
	Pending   Outcome = "pending"
	Running   Outcome = "running"
	Ended     Outcome = "ended"
	Preempted Outcome = "preempted"
)

// A Placement says what happened to a pod.
type Placement struct {
	// Pod is the namespace and name.
	Pod     string  `json:"pod"`
	Outcome Outcome `json:"outcome"`
	// Node is empty if the pod was never placed, and Placed and Ended are zero before they happen.
	Node    string        `json:"node,omitempty"`
	Arrived time.Duration `json:"arrived"`
	Placed  time.Duration `json:"placed"`
	Ended   time.Duration `json:"ended"`
	// Bound says that the pod arrived with a node.
	Bound bool `json:"bound,omitempty"`
	// Attempts counts the decisions about the pod.
	Attempts int `json:"attempts"`
	// Reason says why a pending pod was not placed, in the words of the scheduler's event.
	Reason string `json:"reason,omitempty"`
}

// Waits are the times from the arrival of pods to their placement. They count the pods that were placed by
// a decision: a pod that is still pending is in none of them. A percentile is the wait of a pod (nearest
// rank).
type Waits struct {
	Pods int           `json:"pods"`
	P50  time.Duration `json:"p50"`
	P99  time.Duration `json:"p99"`
	Max  time.Duration `json:"max"`
}

// A Preemption is the eviction of a pod in favor of another one.
type Preemption struct {
	At        time.Duration `json:"at"`
	Victim    string        `json:"victim"`
	Preemptor string        `json:"preemptor"`
	Node      string        `json:"node"`
}

// A Reason is why pods are pending at the end.
type Reason struct {
	Message string `json:"message"`
	Pods    int    `json:"pods"`
}

// Unplaceable counts the pods that are pending at the end by their reasons, the most frequent first.
func (r *Result) Unplaceable() []Reason {
	var list []Reason
	at := map[string]int{}
	for i := range r.Pods {
		p := &r.Pods[i]
		if p.Outcome != Pending {
			continue
		}
		n, known := at[p.Reason]
		if !known {
			n = len(list)
			at[p.Reason] = n
			list = append(list, Reason{Message: p.Reason})
		}
		list[n].Pods++
	}
	slices.SortFunc(list, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Message, b.Message))
	})
	return list
}

// Count returns the number of pods with an outcome.
func (r *Result) Count(o Outcome) int {
	n := 0
	for i := range r.Pods {
		if r.Pods[i].Outcome == o {
			n++
		}
	}
	return n
}

func (s *simulation) result() *Result {
	r := &Result{
		Policy: s.policy.Name, Nodes: len(s.workload.Nodes), Resources: s.usage.resources,
		End: s.changed, Preemptions: s.preemptions, Decisions: s.decisions,
	}
	var waits []time.Duration
	for _, p := range s.all {
		r.Pods = append(r.Pods, p.placement)
		if p.placement.Node != "" && !p.placement.Bound {
			waits = append(waits, p.placement.Placed-p.placement.Arrived)
		}
	}
	r.Waits = summarize(waits)
	r.Samples, r.Mean, r.Peak = s.usage.samples.end(s.changed)
	return r
}

func summarize(waits []time.Duration) Waits {
	n := len(waits)
	if n == 0 {
		return Waits{}
	}
	slices.Sort(waits)
	rank := func(percent int) time.Duration { return waits[(n*percent+99)/100-1] }
	return Waits{Pods: n, P50: rank(50), P99: rank(99), Max: waits[n-1]}
}
