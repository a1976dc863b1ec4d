package schedule_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/randomcluster"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// reference holds what a State should know, and answers by a new State.
type reference struct {
	nodes      map[string]*corev1.Node
	pods       map[string]*corev1.Pod
	namespaces map[string]*corev1.Namespace
	guests     []guest
}

// guest is a pod that a node is reserved for.
type guest struct {
	pod  *schedule.PodInfo
	node string
}

// sameApp lets default constraints spread the pods of an app.
var sameApp = schedule.SpreadDefaults{Selector: func(p *corev1.Pod) labels.Selector {
	return labels.SelectorFromSet(labels.Set{"app": p.Labels["app"]})
}}

func newState(more ...schedule.Predicate) *schedule.State {
	return schedule.NewState(append(predicates.DefaultSpreading(sameApp), more...), priorities.DefaultSpreading(sameApp), 1)
}

// anywhere is a predicate of which nothing can be kept for other pods, so that a State finds everything out
// again for each pod.
var anywhere = schedule.PredicateFunc("Anywhere", func(*schedule.PodInfo, *schedule.NodeInfo) schedule.Verdict { return schedule.Fits })

// state returns a new State.
func (r *reference) state(more ...schedule.Predicate) *schedule.State {
	s := newState(more...)
	for _, n := range r.namespaces {
		s.SetNamespace(n)
	}
	for _, n := range r.nodes {
		s.SetNode(n)
	}
	for _, p := range r.pods {
		s.SetPod(schedule.NewPodInfo(p))
	}
	for _, g := range r.guests {
		s.Nominate(g.pod, g.node)
	}
	return s
}

// samePreemption compares what s says of a pod that fits no node, and of preemption for it, with what a new
// State says.
func (r *reference) samePreemption(t *testing.T, s *schedule.State, p *schedule.PodInfo, budgets []*policyv1.PodDisruptionBudget) {
	t.Helper()
	_, unfit := s.Decide(p)
	if unfit == nil {
		return // the node that is reserved for the pod has room
	}
	other := r.state(anywhere)
	_, want := other.Decide(p)
	if want == nil {
		t.Fatalf("%s fits no node: %v", p.Key, unfit)
	}
	got, ok := s.Preempt(p, unfit, budgets)
	expected, helps := other.Preempt(p, want, budgets)
	victims := func(p schedule.Preemption) (keys []string) {
		for _, v := range p.Victims {
			keys = append(keys, v.Key)
		}
		return keys
	}
	if ok != helps || got.Node != expected.Node || got.Violations != expected.Violations || !slices.Equal(victims(got), victims(expected)) {
		t.Fatalf("%s preempts %v on %q, %t, want %v on %q, %t", p.Key, victims(got), got.Node, ok, victims(expected), expected.Node, helps)
	}
	if unfit.Error() != want.Error() {
		t.Fatalf("%s: %v, want %v", p.Key, unfit, want)
	}
}

// TestModel changes a cluster at random and checks after each change that decisions are those of a State
// that was made of the new cluster, and that no pod that waits is forgotten: if a change makes room for one,
// Helps says so.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for n := range uint64(20) {
		t.Run(fmt.Sprint("seed=", seed+n), func(t *testing.T) {
			t.Parallel()
			walk(t, seed+n)
		})
	}
}

func walk(t *testing.T, seed uint64) {
	c, r := randomcluster.New(seed), rand.New(rand.NewPCG(seed, 1))
	s := newState()
	model := &reference{nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{}, namespaces: map[string]*corev1.Namespace{}}
	waiting := map[*schedule.PodInfo]*schedule.FitError{}
	decide := func(p *schedule.PodInfo) {
		if _, err := s.Decide(p); err != nil {
			waiting[p] = err
		} else {
			delete(waiting, p)
		}
	}
	known := []*corev1.Pod{c.Pod(), c.Pod(), c.Pod(), c.Pod(), c.Pod()}
	for step := range 150 {
		what, e := model.change(c, r, s)
		for p, unfit := range waiting {
			if s.Helps(unfit, e) {
				decide(p)
			} else if node, err := s.Decide(p); err == nil {
				t.Fatalf("step %d, %s: %s fits %s and was not woken", step, what, p.Key, node)
			}
		}
		for p, unfit := range waiting {
			s.Preempt(p, unfit, c.Budgets) // changes nothing
		}
		for p := range waiting {
			model.samePreemption(t, s, p, c.Budgets)
			break
		}
		pod := schedule.NewPodInfo(c.Pod())
		if step%2 == 0 {
			pod = schedule.NewPodInfo(sibling(known[step/2%len(known)], step))
		}
		want := model.state().Explain(pod)
		if got := s.Explain(pod); !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d, %s: %s is judged\n%+v, want\n%+v", step, what, pod.Key, got, want)
		}
		if node, err := s.Decide(pod); !isBest(node, err, want) {
			t.Fatalf("step %d, %s: %s goes to %q, %v, want one of the best of\n%+v", step, what, pod.Key, node, err, want)
		}
		if len(waiting) < 10 {
			decide(pod)
		}
	}
}

// sibling returns a new pod of the same class.
func sibling(pod *corev1.Pod, number int) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Name = fmt.Sprint("sibling-", number)
	pod.UID = types.UID(pod.Name)
	return pod
}

// isBest reports whether a decision is right, given what is said of each node.
func isBest(node string, unfit *schedule.FitError, nodes []schedule.NodeExplanation) bool {
	if len(nodes) == 0 || nodes[0].Predicate != "" {
		return unfit != nil && unfit.Nodes == len(nodes)
	}
	return unfit == nil && slices.ContainsFunc(nodes, func(n schedule.NodeExplanation) bool {
		return n.Node == node && n.Predicate == "" && n.Total == nodes[0].Total
	})
}

// change makes one random change to both.
func (m *reference) change(c *randomcluster.Cluster, r *rand.Rand, s *schedule.State) (what string, e schedule.Event) {
	node := c.Nodes[r.IntN(len(c.Nodes))].Name
	switch r.IntN(11) {
	case 0:
		delete(m.nodes, node)
		return "remove " + node, s.RemoveNode(node)
	case 1, 2:
		m.nodes[node] = c.Node(node)
		return "set " + node, s.SetNode(m.nodes[node])
	case 3:
		n := c.Namespaces[r.IntN(len(c.Namespaces))].DeepCopy()
		if n.Labels["team"] = fmt.Sprint(r.IntN(3)); r.IntN(3) == 0 {
			delete(m.namespaces, n.Name)
			return "remove namespace " + n.Name, s.RemoveNamespace(n.Name)
		}
		m.namespaces[n.Name] = n
		return "set namespace " + n.Name, s.SetNamespace(n)
	case 10:
		if n := len(m.guests); n > 0 && r.IntN(2) == 0 {
			i := r.IntN(n)
			gone := m.guests[i].pod
			m.guests = slices.Delete(m.guests, i, i+1)
			return "withdraw " + gone.Key, s.Withdraw(gone.Key)
		}
		pod := schedule.NewPodInfo(c.Pod())
		s.Nominate(pod, node)
		m.guests = append(m.guests, guest{pod, node})
		return "nominate " + pod.Key, schedule.Event{}
	case 4, 5, 6:
		if key, ok := m.any(r); ok && r.IntN(2) == 0 {
			delete(m.pods, key)
			return "remove " + key, s.RemovePod(key)
		} else if ok {
			pod := m.pods[key].DeepCopy()
			switch other := c.Pod(); r.IntN(4) {
			case 0:
				pod.Labels = other.Labels
			case 1:
				pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			case 2:
				pod.Spec.NodeName = node
			case 3:
				pod.Spec = other.Spec
				pod.Spec.NodeName = node
			}
			m.pods[key] = pod
			return "change " + key, s.SetPod(schedule.NewPodInfo(pod))
		}
	}
	pod := c.Pod()
	pod.Spec.NodeName = node
	info := schedule.NewPodInfo(pod)
	if r.IntN(3) == 0 {
		s.Assume(info, node)
		if r.IntN(2) == 0 {
			return "assume and forget " + info.Key, s.Forget(info)
		}
	}
	m.pods[info.Key] = pod
	return "set " + info.Key, s.SetPod(info)
}

// any returns the name of a random pod.
func (m *reference) any(r *rand.Rand) (key string, ok bool) {
	keys := slices.Sorted(maps.Keys(m.pods))
	if len(keys) == 0 {
		return "", false
	}
	return keys[r.IntN(len(keys))], true
}
