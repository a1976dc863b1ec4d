// Package gate admits the pods of a node one after the other, and knows which pods hold its
// resources.
//
// A pod queues when the kubelet first sees it. The first worker that asks about its pod decides
// about all pods before it in the queue, so that the order of the workers does not matter. A pod
// holds its resources from then on until it has left: until nothing of it runs, or ever will.
//
// Pods that were admitted before the kubelet was restarted hold their resources without being asked.
package gate

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/planekit/planekit/kubelet/admission"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Nodes returns the Node with its labels, taints and allocatable resources; nil if it is not known.
// With fresh, it reads the Node from the API, which may fail. All pods wait for it, so it must limit
// its time.
type Nodes func(ctx context.Context, fresh bool) *corev1.Node

// Gate admits pods. All methods are safe for concurrent use.
type Gate struct {
	// Allocated returns a pod with the resources that it has been allocated, in which its spec may
	// differ while it is resized. If nil, these are the ones in the spec.
	Allocated func(*corev1.Pod) *corev1.Pod

	nodes    Nodes
	handlers func() []admission.Handler

	deciding sync.Mutex // held while a decision is made; before mu

	mu sync.Mutex
	// mu guards the fields below.
	queue []*corev1.Pod      // in the order of admission
	pods  map[types.UID]*pod // the pods in the queue, and those that were decided about
	last  uint64
}

// pod records what was decided about a pod, and whether it holds its resources.
type pod struct {
	spec    *corev1.Pod
	arrival uint64 // its place among all pods
	outcome *Outcome
	// holds means that the pod holds its resources. A pod that ends for another one holds none.
	holds bool
	// ending means that the pod ends for another one, and has not left.
	ending bool
	// left is closed when the pod has left.
	left chan struct{}
}

// hasLeft reports whether left is closed.
func (p *pod) hasLeft() bool {
	select {
	case <-p.left:
		return true
	default:
		return false
	}
}

// Outcome is the decision about a pod.
type Outcome struct {
	admission.Verdict
	// Victims are the pods that must be ended for this one.
	Victims []*corev1.Pod
	// After are the pods that must have left before this one starts. It includes the victims of earlier
	// pods.
	After []Leaving
}

// Leaving is a pod that ends. Left is closed when it has left.
type Leaving struct {
	Pod  *corev1.Pod
	Left <-chan struct{}
}

// New returns a Gate that asks handlers about pods, in their order. The function is called for each
// decision.
func New(nodes Nodes, handlers func() []admission.Handler) *Gate {
	return &Gate{nodes: nodes, handlers: handlers, pods: map[types.UID]*pod{}}
}

// Restore lets a pod hold its resources without being asked, because it has started before. It
// changes nothing about a pod that ends or has left.
func (g *Gate) Restore(p *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	entry := g.pods[p.UID]
	if entry == nil {
		entry = g.add(p)
	}
	if entry.ending || entry.hasLeft() {
		return
	}
	g.dequeue(p.UID)
	entry.outcome, entry.holds = &Outcome{}, true
}

// Enqueue adds pods to the queue in the order of their creation. It changes nothing about pods that
// the Gate knows.
func (g *Gate) Enqueue(pods ...*corev1.Pod) {
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range pods {
		if g.pods[p.UID] == nil {
			g.add(p)
			g.queue = append(g.queue, p)
		}
	}
}

// add adds a pod. The caller holds g.mu.
func (g *Gate) add(p *corev1.Pod) *pod {
	g.last++
	entry := &pod{spec: p, arrival: g.last, left: make(chan struct{})}
	g.pods[p.UID] = entry
	return entry
}

// Decide returns the decision about a pod, which is made once. It queues a pod that the Gate does
// not know. The end of ctx interrupts nothing, because the decision may be about another pod.
func (g *Gate) Decide(ctx context.Context, p *corev1.Pod) Outcome {
	ctx = context.WithoutCancel(ctx)
	g.Enqueue(p)
	g.deciding.Lock()
	defer g.deciding.Unlock()
	for {
		if outcome := g.outcome(p.UID); outcome != nil {
			return *outcome
		}
		next, others := g.next()
		if next == nil {
			return Outcome{} // it has left meanwhile, and starts nothing
		}
		g.settle(next, g.ask(ctx, next, others))
	}
}

// outcome returns the decision about a pod; nil if there is none yet.
func (g *Gate) outcome(uid types.UID) *Outcome {
	g.mu.Lock()
	defer g.mu.Unlock()
	if entry := g.pods[uid]; entry != nil {
		return entry.outcome
	}
	return nil
}

// next returns the first pod of the queue, and the pods that hold resources, in the order in which
// they arrived.
func (g *Gate) next() (*corev1.Pod, []*corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) == 0 {
		return nil, nil
	}
	return g.queue[0], g.holding()
}

// holding returns the pods that hold resources. The caller holds g.mu.
func (g *Gate) holding() []*corev1.Pod {
	var entries []*pod
	for _, entry := range g.pods {
		if entry.holds {
			entries = append(entries, entry)
		}
	}
	slices.SortFunc(entries, func(a, b *pod) int { return cmp.Compare(a.arrival, b.arrival) })
	pods := make([]*corev1.Pod, len(entries))
	for i, entry := range entries {
		pods[i] = entry.spec
	}
	return pods
}

// Ending reports whether a pod must end for another one.
func (g *Gate) Ending(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	entry := g.pods[uid]
	return entry != nil && entry.ending
}

// Pods returns the pods that hold resources of the node.
func (g *Gate) Pods() []*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holding()
}

// ask asks the handlers about a pod.
func (g *Gate) ask(ctx context.Context, p *corev1.Pod, others []*corev1.Pod) Outcome {
	request := admission.Request{Pod: p, Others: others, Node: g.nodes(ctx, false)}
	if request.Node == nil {
		return Outcome{Verdict: admission.Verdict{Reason: admission.ReasonInvalidNode, Message: "Kubelet cannot get node info."}}
	}
	if g.Allocated != nil {
		for i, other := range others {
			others[i] = g.Allocated(other)
		}
	}
	verdict, victims := admission.Decide(request, g.handlers())
	if verdict.Reason == admission.ReasonAffinity {
		// The labels may have changed since the Node was read.
		if node := g.nodes(ctx, true); node != nil {
			request.Node = node
			verdict, victims = admission.Decide(request, g.handlers())
		}
	}
	return Outcome{Verdict: verdict, Victims: victims}
}

// settle records the decision about the first pod of the queue, unless it has left meanwhile.
func (g *Gate) settle(p *corev1.Pod, outcome Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	entry := g.pods[p.UID]
	if entry == nil || entry.outcome != nil {
		return
	}
	g.dequeue(p.UID)
	entry.outcome = &outcome
	if entry.holds = outcome.Admits(); !entry.holds {
		return
	}
	for _, victim := range outcome.Victims {
		if v := g.pods[victim.UID]; v != nil && !v.hasLeft() {
			v.holds, v.ending = false, true
		}
	}
	for _, other := range g.pods {
		if other.ending {
			outcome.After = append(outcome.After, Leaving{other.spec, other.left})
		}
	}
	slices.SortFunc(outcome.After, func(a, b Leaving) int { return cmp.Compare(a.Pod.UID, b.Pod.UID) })
}

// Leave takes back what a pod holds: nothing of it runs, or ever will. It reports whether other pods
// may have waited for that.
func (g *Gate) Leave(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	entry := g.pods[uid]
	if entry == nil || entry.hasLeft() {
		return false
	}
	if entry.outcome == nil {
		g.dequeue(uid)
		entry.outcome = &Outcome{}
	}
	waited := entry.ending
	entry.holds, entry.ending = false, false
	close(entry.left)
	return waited
}

// Forget forgets a pod that is gone. It reports whether other pods may have waited for that.
func (g *Gate) Forget(uid types.UID) bool {
	waited := g.Leave(uid)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.pods, uid)
	return waited
}

// dequeue removes a pod from the queue. The caller holds g.mu.
func (g *Gate) dequeue(uid types.UID) {
	g.queue = slices.DeleteFunc(g.queue, func(p *corev1.Pod) bool { return p.UID == uid })
}
