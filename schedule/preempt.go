package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Preemption says which pods must end so that a pod of higher priority fits a node.
type Preemption struct {
	Node string
	// Victims have a lower priority than the pod. The most important one is first.
	Victims []*PodInfo
	// Violations counts the victims whose disruption budgets allow no further disruption.
	Violations int
}

// Preempt chooses a node on which a pod fits once pods of lower priority have ended, and the fewest and
// least important of them, as kube-scheduler does:
//
//   - fewest violations of disruption budgets;
//   - then the lowest priority of the most important victim;
//   - then the lowest sum of priorities;
//   - then the fewest victims;
//   - then the latest start of the most important victims;
//   - then the first by name.
//
// unfit is the error of Decide. If there is no such node, Preempt says why in unfit, and ok is false.
// Preempt looks at all nodes. It changes nothing: see [State.Nominate] and [State.Evict].
func (s *State) Preempt(p *PodInfo, unfit *FitError, budgets []*policyv1.PodDisruptionBudget) (best Preemption, ok bool) {
	if reason := s.mayNotPreempt(p); reason != "" {
		unfit.Preemption = "preemption: not eligible due to " + reason + "."
		return best, false
	}
	refused := FitError{Nodes: len(s.order), Reasons: make(map[string]int)}
	if !s.hasLower(p) {
		refused.Reasons[unhelpful] = unfit.lasting
		refused.Reasons[noVictims] = len(s.order) - unfit.lasting
		maps.DeleteFunc(refused.Reasons, func(_ string, nodes int) bool { return nodes == 0 })
		unfit.Preemption = "preemption: " + refused.Error()
		return best, false
	}
	local := s.compile(p)
	defer s.try()()
	for _, n := range s.order {
		found, reasons := s.victims(p, n, local, budgets)
		for _, reason := range reasons {
			refused.Reasons[reason]++
		}
		if reasons == nil && (!ok || comparePreemptions(found, best) < 0) {
			best, ok = found, true
		}
	}
	if !ok {
		unfit.Preemption = "preemption: " + refused.Error()
	}
	return best, ok
}

// The reasons why preemption does not help on a node.
const (
	unhelpful = "Preemption is not helpful for scheduling"
	noVictims = "No preemption victims found for incoming pod"
)

// hasLower reports whether any pod on a node has a lower priority than p.
func (s *State) hasLower(p *PodInfo) bool {
	for other := range s.priorityOf {
		if other < priority(p) {
			return true
		}
	}
	return false
}

// mayNotPreempt returns why a pod must not preempt, or "".
func (s *State) mayNotPreempt(p *PodInfo) string {
	if policy := p.Pod.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return "preemptionPolicy=Never"
	}
	if node, ok := s.nominees[p.Key]; ok {
		if n := s.nodes[node]; n != nil && s.endsFor(p, n) {
			return "a terminating pod on the nominated node"
		}
	}
	return ""
}

// endsFor reports whether a pod on a node that p may preempt is ending.
func (s *State) endsFor(p *PodInfo, n *NodeInfo) bool {
	for _, other := range n.Pods {
		if priority(other) < priority(p) && s.ends(other) {
			return true
		}
	}
	return false
}

// ends reports whether a pod on a node is ending, or was evicted and does not say so yet.
func (s *State) ends(p *PodInfo) bool {
	return p.Pod.DeletionTimestamp != nil || s.pods[p.Key].evicted
}

// victims returns what p must preempt on a node, or why that does not help.
func (s *State) victims(p *PodInfo, n *NodeInfo, local []filter, budgets []*policyv1.PodDisruptionBudget) (found Preemption, reasons []string) {
	judge := func() Verdict {
		v, _ := s.judge(&filters{state: s, pod: p, local: local, isCompiled: true}, n)
		return v
	}
	if v := judge(); v.Lasting || v.All {
		return found, []string{unhelpful}
	}
	var lower []place
	for _, other := range n.Pods {
		if priority(other) < priority(p) {
			lower = append(lower, s.pods[other.Key])
		}
	}
	if len(lower) == 0 {
		return found, []string{noVictims}
	}
	slices.SortFunc(lower, func(a, b place) int { return compareImportance(a.pod, b.pod) })
	gone := make(map[string]place)
	remove := func(one place) { s.take(one.pod.Key); gone[one.pod.Key] = one }
	restore := func(one place) { s.put(one); delete(gone, one.pod.Key) }
	for _, one := range lower {
		remove(one)
	}
	defer func() {
		for _, one := range gone {
			restore(one)
		}
	}()
	if v := judge(); !v.OK() {
		return found, v.Reasons
	}
	// Spare those whose budgets are spent before the others, and in each group the most important first.
	violating, harmless := splitByBudgets(lower, budgets)
	for i, one := range append(violating, harmless...) {
		restore(one)
		if judge().OK() {
			continue
		}
		remove(one)
		found.Victims = append(found.Victims, one.pod)
		if i < len(violating) {
			found.Violations++
		}
	}
	slices.SortFunc(found.Victims, compareImportance)
	found.Node = n.Node.Name
	return found, nil
}

// compareImportance orders pods by priority and by how long they have run.
func compareImportance(a, b *PodInfo) int {
	return cmp.Or(cmp.Compare(priority(b), priority(a)), started(a).Compare(started(b)), cmp.Compare(a.Key, b.Key))
}

// started returns when a pod has started. One that has not is the latest.
func started(p *PodInfo) time.Time {
	if t := p.Pod.Status.StartTime; t != nil {
		return t.Time
	}
	return time.Unix(math.MaxInt32, 0)
}

// splitByBudgets divides pods, the most important first, into those whose end a budget forbids after the
// ends of those before, and the others. A pod that ends already costs nothing.
func splitByBudgets(pods []place, budgets []*policyv1.PodDisruptionBudget) (violating, harmless []place) {
	allowed := make([]int32, len(budgets))
	selectors := make([]labels.Selector, len(budgets))
	for i, b := range budgets {
		allowed[i] = b.Status.DisruptionsAllowed
		if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && !s.Empty() {
			selectors[i] = s // one that is empty protects nothing here, as in Kubernetes
		}
	}
	for _, one := range pods {
		violates := false
		for i, b := range budgets {
			pod := one.pod.Pod
			if selectors[i] == nil || b.Namespace != pod.Namespace || len(pod.Labels) == 0 || !selectors[i].Matches(labels.Set(pod.Labels)) {
				continue
			}
			if _, counted := b.Status.DisruptedPods[pod.Name]; counted {
				continue
			}
			allowed[i]--
			violates = violates || allowed[i] < 0
		}
		if violates {
			violating = append(violating, one)
		} else {
			harmless = append(harmless, one)
		}
	}
	return violating, harmless
}

// comparePreemptions orders preemptions: the better one is less.
func comparePreemptions(a, b Preemption) int {
	sum := func(p Preemption) (sum int64) {
		for _, v := range p.Victims {
			// Each counts, also one with a negative priority.
			sum += int64(priority(v)) + math.MaxInt32 + 1
		}
		return sum
	}
	return cmp.Or(
		cmp.Compare(a.Violations, b.Violations),
		cmp.Compare(highest(a), highest(b)),
		cmp.Compare(sum(a), sum(b)),
		cmp.Compare(len(a.Victims), len(b.Victims)),
		firstStart(b).Compare(firstStart(a)),
		cmp.Compare(a.Node, b.Node),
	)
}

// highest returns the priority of the most important victim.
func highest(p Preemption) int32 {
	if len(p.Victims) == 0 {
		return math.MinInt32
	}
	return priority(p.Victims[0])
}

// firstStart returns the first start among the victims with the highest priority.
func firstStart(p Preemption) time.Time {
	if len(p.Victims) == 0 {
		return time.Time{}
	}
	return started(p.Victims[0]) // they are in the order of their starts
}

// Nominate reserves room on a node for a pod that waits until its victims there have ended: for decisions
// about pods of the same or a lower priority, it counts as on the node. Pods of lower priority that the node
// is reserved for should lose that: see [State.Outranked].
func (s *State) Nominate(p *PodInfo, node string) {
	s.Withdraw(p.Key)
	if s.guests[node] == nil {
		s.guests[node] = make(map[string]*PodInfo)
	}
	s.guests[node][p.Key], s.nominees[p.Key] = p, node
}

// Outranked returns the pods with a lower priority than p that a node is reserved for, by name.
func (s *State) Outranked(p *PodInfo, node string) []*PodInfo {
	var lower []*PodInfo
	for _, guest := range s.guests[node] {
		if priority(guest) < priority(p) {
			lower = append(lower, guest)
		}
	}
	slices.SortFunc(lower, func(a, b *PodInfo) int { return cmp.Compare(a.Key, b.Key) })
	return lower
}

// Withdraw ends the reservation of a pod, if it has one.
func (s *State) Withdraw(key string) Event {
	node, ok := s.nominees[key]
	if !ok {
		return none
	}
	p := s.guests[node][key]
	delete(s.nominees, key)
	if delete(s.guests[node], key); len(s.guests[node]) == 0 {
		delete(s.guests, node)
	}
	if n := s.nodes[node]; n != nil {
		return change(p, nil, n)
	}
	return none
}

// renewGuest keeps what is known of a pod that a node is reserved for, and ends the reservation of an
// earlier pod of that name.
func (s *State) renewGuest(p *PodInfo) {
	node, ok := s.nominees[p.Key]
	switch {
	case !ok:
	case s.guests[node][p.Key].Pod.UID == p.Pod.UID:
		s.guests[node][p.Key] = p
	default:
		s.Withdraw(p.Key)
	}
}

// Evict notes that a pod was evicted, or with false that this has failed, before the pod itself says
// so.
func (s *State) Evict(key string, evicted bool) {
	if one, ok := s.pods[key]; ok {
		one.evicted = evicted
		s.pods[key] = one
	}
}

// judge returns the verdict of the first predicate that refuses a node, and its index. The node must have
// room for the pod together with those that it is reserved for, and also without them: a pod may need
// another one that is not there yet.
func (s *State) judge(f *filters, n *NodeInfo) (v Verdict, predicate int) {
	var guests []*PodInfo
	for key, guest := range s.guests[n.Node.Name] {
		if key != f.pod.Key && priority(guest) >= priority(f.pod) {
			guests = append(guests, guest)
		}
	}
	if len(guests) == 0 {
		return f.judge(n)
	}
	defer s.try()()
	for _, guest := range guests {
		s.put(place{pod: guest, node: n.Node.Name, assumed: true})
	}
	with := filters{state: s, pod: f.pod, local: f.locals(), isCompiled: true}
	v, predicate = with.judge(n)
	for _, guest := range guests {
		s.take(guest.Key)
	}
	if !v.OK() {
		return v, predicate
	}
	return f.judge(n)
}

// try says that pods are put on nodes and taken from them only to look at the effect, until the function
// that it returns is called.
func (s *State) try() (done func()) {
	before := s.trying
	s.trying = true
	return func() { s.trying = before }
}

// nominated returns the node that is reserved for a pod, if the pod fits it.
func (s *State) nominated(f *filters) *NodeInfo {
	n := s.nodes[s.nominees[f.pod.Key]]
	if n == nil || n.Node == nil {
		return nil
	}
	if v, _ := s.judge(f, n); !v.OK() {
		return nil
	}
	return n
}

// withPreemption returns message with what is said of preemption.
func withPreemption(message, preemption string) string {
	if preemption == "" {
		return message
	}
	return fmt.Sprintf("%s %s", message, preemption)
}
