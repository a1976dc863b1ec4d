// Package simulate runs the scheduler's core over a cluster in memory and in virtual time: thousands of
// nodes, days of arriving pods, in seconds, and without an API server.
//
//	workload, err := simulate.ReadCSV("trace.csv", file)
//	workload.Nodes = simulate.Uniform(100, "16", "64Gi")
//	result, err := simulate.Run(ctx, workload, simulate.Policy{Preempt: true})
//	err = simulate.WriteTable(os.Stdout, result)
//
// A [Workload] is nodes and the pods that arrive. It comes from a CSV trace ([ReadCSV]), from manifests or
// a snapshot of a cluster ([ReadManifests]), from [Generate], or from the program. A [Policy] is what
// schedules them. To compare policies, give [WriteTable] and [WriteSVG] the results of several.
//
// # Model
//
// Decisions are those of [schedule.State], and pods wait in a [schedule.Queue], as in a [schedule.Scheduler]:
// in the order of priority and age, with its backoff and its wakes. A decision and its binding take no
// time, so that a pod waits only for room. Events of one instant are applied before the decisions of that
// instant. A pod with a duration ends that long after it was placed. A preempted pod ends after its whole
// grace period; if [Arrival].Recreate is set, another pod arrives in its place at once.
//
// The same workload, policy and seed give the same result, byte by byte.
//
// # Left out
//
// Nodes do not come, change or go. Volumes, disruption controllers and the kubelet are not simulated: a
// claim is not looked at, a disruption budget allows what its status says from the beginning to the end,
// and each pod runs at once. All pods belong to the one scheduler, whatever their schedulerName.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// A Workload is a cluster and the pods that arrive at it. Run does not change it.
type Workload struct {
	// Nodes are there from the beginning. Their names are unique.
	Nodes []*corev1.Node
	// Namespaces have the labels that affinity selects namespaces by.
	Namespaces []*corev1.Namespace
	// Budgets are the disruption budgets, which preemption violates only where it must.
	Budgets []*policyv1.PodDisruptionBudget
	// Arrivals are the pods, in any order. Namespace and name of each are unique.
	Arrivals []Arrival
	// Until ends the simulation; zero means that it ends when nothing changes any more.
	Until time.Duration
	// Ignored counts the objects by kind that a reader found and that a simulation has no use for.
	Ignored map[string]int
}

// An Arrival is a pod that arrives.
type Arrival struct {
	// At is the time of the arrival, from the beginning of the simulation.
	At time.Duration
	// Duration is how long the pod runs; zero means that it does not end by itself.
	Duration time.Duration
	// Pod is the pod. If it names a node, it takes its room there without a decision. A creation timestamp
	// is its age in the queue; without one it is created when it arrives.
	Pod *corev1.Pod
	// Recreate says that another pod arrives in the place of this one when it is preempted, as if a
	// controller made it. It runs for the whole duration.
	Recreate bool
}

// A Policy decides where pods run. The zero Policy is the default profile without preemption.
type Policy struct {
	// Name is the heading of the policy's results; empty means "default".
	Name string
	// Predicates and Priorities are those of [schedule.Config]. Nil means the default ones; an empty list
	// means none.
	Predicates []schedule.Predicate
	Priorities []schedule.Weighted
	// Preempt lets pods that fit no node preempt pods of lower priority.
	Preempt bool
	// Seed seeds the random choice between equal nodes.
	Seed uint64
}

// MaxPods bounds the pods of a workload, so that a wrong count in an input does not fill the memory.
const MaxPods = 2_000_000

// maxTime bounds times and durations, so that sums of two do not overflow.
const maxTime = 100 * 365 * 24 * time.Hour

// Run simulates a workload under a policy. It fails if the workload is invalid, or ctx is done.
func Run(ctx context.Context, w *Workload, p Policy) (*Result, error) {
	if err := w.check(); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	for _, weighted := range p.Priorities {
		if weighted.Weight < 0 {
			return nil, fmt.Errorf("simulate: negative weight of %s", weighted.Name())
		}
	}
	if p.Name == "" {
		p.Name = "default"
	}
	if p.Predicates == nil {
		p.Predicates = predicates.Default()
	}
	if p.Priorities == nil {
		p.Priorities = priorities.Default()
	}
	s := newSimulation(w, p)
	if err := s.run(ctx); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	return s.result(), nil
}

func (w *Workload) check() error {
	if w.Until < 0 {
		return errors.New("a negative Until")
	}
	if len(w.Arrivals) > MaxPods {
		return fmt.Errorf("%d pods are more than %d", len(w.Arrivals), MaxPods)
	}
	nodes := make(map[string]bool, len(w.Nodes))
	for _, n := range w.Nodes {
		if n.Name == "" || nodes[n.Name] {
			return fmt.Errorf("node %q is there twice or has no name", n.Name)
		}
		nodes[n.Name] = true
		if err := checkAmounts(n.Status.Allocatable); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	pods := make(map[string]bool, len(w.Arrivals))
	for i := range w.Arrivals {
		a := &w.Arrivals[i]
		if a.Pod == nil {
			return fmt.Errorf("arrival %d has no pod", i)
		}
		key := a.Pod.Namespace + "/" + a.Pod.Name
		if pods[key] {
			return fmt.Errorf("pod %s arrives twice", key)
		}
		pods[key] = true
		if err := a.check(); err != nil {
			return fmt.Errorf("pod %s: %w", key, err)
		}
	}
	return nil
}

func (a *Arrival) check() error {
	switch {
	case a.At < 0 || a.At > maxTime:
		return fmt.Errorf("the arrival at %v is not between 0 and 100 years", a.At)
	case a.Duration < 0 || a.Duration > maxTime:
		return fmt.Errorf("the duration %v is not between 0 and 100 years", a.Duration)
	}
	lists := []corev1.ResourceList{a.Pod.Spec.Overhead}
	if r := a.Pod.Spec.Resources; r != nil {
		lists = append(lists, r.Requests)
	}
	for i := range a.Pod.Spec.InitContainers {
		lists = append(lists, a.Pod.Spec.InitContainers[i].Resources.Requests)
	}
	for i := range a.Pod.Spec.Containers {
		lists = append(lists, a.Pod.Spec.Containers[i].Resources.Requests)
	}
	for _, list := range lists {
		if err := checkAmounts(list); err != nil {
			return err
		}
	}
	return nil
}

// maxExponent bounds the powers of ten of an amount. To compare larger ones takes seconds and more.
const maxExponent = 100

// checkAmounts refuses negative amounts, which would make room, and those with huge powers of ten.
func checkAmounts(list corev1.ResourceList) error {
	for name, q := range list {
		if q.Sign() < 0 {
			return fmt.Errorf("%s is negative", name)
		}
		if q.AsDec().Scale() < -maxExponent {
			return fmt.Errorf("%s is more than 1e%d", name, maxExponent)
		}
	}
	return nil
}
