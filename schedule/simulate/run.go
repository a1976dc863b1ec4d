package simulate

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"time"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// simulation is one run.
type simulation struct {
	workload *Workload
	policy   Policy
	state    *schedule.State
	queue    *schedule.Queue
	happens  happenings
	// start is the time of the queue and of the objects at the virtual time 0.
	start time.Time
	now   time.Duration
	// changed is the time of the last change of the cluster.
	changed time.Duration
	// refused are the pods that were refused since the last change.
	refused map[string]bool

	// all holds the pods that have arrived, in that order; pods those that still exist, by key.
	all  []*pod
	pods map[string]*pod
	// names are the keys of all pods that arrive.
	names map[string]bool

	usage       *usage
	decisions   int
	preemptions []Preemption
}

// pod is a pod that has arrived.
type pod struct {
	arrival   *Arrival
	info      *schedule.PodInfo
	placement Placement
}

func newSimulation(w *Workload, p Policy) *simulation {
	state := schedule.NewState(p.Predicates, p.Priorities, p.Seed)
	s := &simulation{
		workload: w, policy: p,
		state: state, queue: schedule.NewQueue(state),
		start: time.Unix(0, 0).UTC(), refused: make(map[string]bool), pods: make(map[string]*pod), names: make(map[string]bool, len(w.Arrivals)),
		usage: newUsage(w),
	}
	for _, n := range w.Nodes {
		s.state.SetNode(n)
	}
	for _, n := range w.Namespaces {
		s.state.SetNamespace(n)
	}
	for i := range w.Arrivals {
		a := &w.Arrivals[i]
		s.names[a.Pod.Namespace+"/"+a.Pod.Name] = true
		s.at(a.At, func() { s.arrive(a) })
		// Pods of a snapshot are older than all that arrive later.
		if created := a.Pod.CreationTimestamp.Time; created.After(s.start) {
			s.start = created
		}
	}
	return s
}

// run advances from one instant to the next in which something happens.
func (s *simulation) run(ctx context.Context) error {
	s.usage.samples.record(0, s.usage.now(0))
	for {
		at, ok := s.next()
		if !ok {
			break
		}
		s.now = at
		for len(s.happens.list) > 0 && s.happens.list[0].at == at {
			heap.Pop(&s.happens).(happening).do()
		}
		for {
			p, ok := s.queue.Pop(s.time())
			if !ok {
				break
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			s.decide(p)
		}
		if s.changed == s.now {
			s.usage.samples.record(s.now, s.usage.now(s.queue.Len()))
		}
	}
	if until := s.workload.Until; until > 0 {
		s.changed = until
	}
	return nil
}

// next returns the next instant in which something happens; ok is false if nothing changes any more.
func (s *simulation) next() (at time.Duration, ok bool) {
	if len(s.happens.list) > 0 {
		at, ok = s.happens.list[0].at, true
	} else if s.queue.Len() == len(s.refused) {
		return 0, false // no attempt can go differently from the last one
	}
	if ready, waits := s.queue.Next(); waits {
		if t := max(s.now, ready.Sub(s.start)); !ok || t < at {
			at, ok = t, true
		}
	}
	return at, ok && (s.workload.Until == 0 || at <= s.workload.Until)
}

func (s *simulation) time() time.Time { return s.start.Add(s.now) }

// change handles a change of the state.
func (s *simulation) change(e schedule.Event) {
	s.changed = s.now
	clear(s.refused)
	s.queue.Wake(e, s.time())
}

// arrive adds a pod to the cluster.
func (s *simulation) arrive(a *Arrival) {
	object := *a.Pod
	if object.UID == "" {
		object.UID = types.UID(object.Namespace + "/" + object.Name)
	}
	if object.CreationTimestamp.IsZero() {
		object.CreationTimestamp = metav1.NewTime(s.time())
	}
	info := schedule.NewPodInfo(&object)
	p := &pod{arrival: a, info: info, placement: Placement{Pod: info.Key, Arrived: s.now, Outcome: Pending}}
	s.all = append(s.all, p)
	s.pods[info.Key] = p
	switch {
	case object.Spec.NodeName != "":
		p.placement.Bound = true
		s.place(p, object.Spec.NodeName)
	case len(object.Spec.SchedulingGates) > 0:
		p.placement.Reason = "Scheduling is blocked due to non-empty scheduling gates"
	default:
		if node := object.Status.NominatedNodeName; node != "" {
			s.state.Nominate(info, node)
		}
		s.queue.Add(info, s.time())
		s.changed = s.now
	}
}

// decide makes one decision and carries it out.
func (s *simulation) decide(info *schedule.PodInfo) {
	p := s.pods[info.Key]
	s.decisions++
	p.placement.Attempts++
	node, unfit := s.state.Decide(info)
	if unfit == nil {
		s.queue.Remove(info.Key)
		s.place(p, node)
		return
	}
	preemption := s.preempt(p, unfit)
	s.queue.Park(info, unfit, s.time())
	s.refused[info.Key] = true
	p.placement.Reason = unfit.Error()
	s.evict(p, preemption)
}

// place puts a pod on a node, where it starts at once.
func (s *simulation) place(p *pod, node string) {
	p.placement.Node, p.placement.Placed = node, s.now
	p.placement.Reason, p.placement.Outcome = "", Running
	object := *p.info.Pod
	object.Spec.NodeName = node
	object.Status.Phase = corev1.PodRunning
	if object.Status.StartTime == nil {
		object.Status.StartTime = &metav1.Time{Time: s.time()}
	}
	p.info = schedule.NewPodInfo(&object)
	s.usage.add(node, p.info.Requests, 1)
	s.change(s.state.SetPod(p.info))
	if d := p.arrival.Duration; d > 0 {
		s.at(s.now+d, func() { s.remove(p, Ended) })
	}
	if object.DeletionTimestamp != nil {
		s.at(s.now+grace(&object), func() { s.remove(p, Ended) })
	}
}

// remove removes a pod from its node, unless it is gone already.
func (s *simulation) remove(p *pod, outcome Outcome) {
	if s.pods[p.info.Key] != p {
		return
	}
	delete(s.pods, p.info.Key)
	p.placement.Ended, p.placement.Outcome = s.now, outcome
	s.usage.add(p.placement.Node, p.info.Requests, -1)
	s.change(s.state.RemovePod(p.info.Key))
}

// at lets do happen at a time.
func (s *simulation) at(at time.Duration, do func()) {
	s.happens.made++
	heap.Push(&s.happens, happening{at, s.happens.made, do})
}

// happening is something that happens at a time. Those of one time happen in the order in which they were
// made.
type happening struct {
	at     time.Duration
	number int
	do     func()
}

// happenings is a heap by time.
type happenings struct {
	list []happening
	made int
}

func (h *happenings) Len() int { return len(h.list) }
func (h *happenings) Less(i, j int) bool {
	a, b := &h.list[i], &h.list[j]
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.number, b.number)) < 0
}
func (h *happenings) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }

// Push implements heap.Interface.
func (h *happenings) Push(x any) { h.list = append(h.list, x.(happening)) }

// Pop implements heap.Interface.
func (h *happenings) Pop() any {
	last := len(h.list) - 1
	one := h.list[last]
	h.list[last] = happening{}
	h.list = h.list[:last]
	return one
}

// unique returns a name for a pod that takes the place of another one.
func (s *simulation) unique(namespace, name string) string {
	for n := 2; ; n++ {
		next := fmt.Sprintf("%s-%d", name, n)
		if key := namespace + "/" + next; !s.names[key] {
			s.names[key] = true
			return next
		}
	}
}
