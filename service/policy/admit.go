package policy

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// errEnded is the error of Admit after the end of Run.
var errEnded = errors.New("policy: the enforcer has ended")

// admissions are the pods of the node whose addresses it learned before they were in a status. Its owner guards it.
type admissions struct {
	byKey map[string]admission
	// waiting has a channel for each call of Admit that is not in the rules yet.
	waiting []chan struct{}
}

// admission is a pod with its addresses.
type admission struct {
	pod   *corev1.Pod
	addrs []netip.Addr
}

// Admit makes addresses those of a pod of the node, and returns once the rules hold for them. A caller that runs the pod's
// first process after that has a pod that its policies protect from its first packet, whatever had the addresses before. The
// addresses replace those in the pod's status. The pod must not be changed after.
func (e *Enforcer) Admit(ctx context.Context, pod *corev1.Pod, addrs ...netip.Addr) error {
	if pod.Spec.HostNetwork {
		return nil
	}
	written := make(chan struct{})
	e.mu.Lock()
	e.admitted.put(keyOf(pod), admission{pod, addrs})
	e.admitted.waiting = append(e.admitted.waiting, written)
	e.mu.Unlock()
	select {
	case e.urgent <- struct{}{}:
	default:
	}
	select {
	case <-written:
		return nil
	case <-e.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// put replaces the admission of a pod. Other pods lose its addresses.
func (a *admissions) put(key string, new admission) {
	for other, old := range a.byKey {
		left := slices.DeleteFunc(slices.Clone(old.addrs), func(addr netip.Addr) bool { return slices.Contains(new.addrs, addr) })
		if len(left) == 0 {
			delete(a.byKey, other)
		} else if len(left) < len(old.addrs) {
			a.byKey[other] = admission{old.pod, left}
		}
	}
	a.byKey[key] = new
}

// forget removes the admission of a pod that is gone. One of another pod with the name stays.
func (a *admissions) forget(pod *corev1.Pod) {
	if a.byKey[keyOf(pod)].pod != nil && a.byKey[keyOf(pod)].pod.UID == pod.UID {
		delete(a.byKey, keyOf(pod))
	}
}

// world returns what the rules depend on, and the calls of Admit that they are for.
func (e *Enforcer) world() (World, []chan struct{}) {
	w := World{Node: e.Node, Links: e.Bridges, Connections: e.Connections, Policies: slices.Collect(e.Policies.All()), Namespaces: map[string]*corev1.Namespace{}, Admitted: map[string][]netip.Addr{}}
	for n := range e.Namespaces.All() {
		w.Namespaces[n.Name] = n
	}
	e.mu.Lock()
	admitted, waiting := maps.Clone(e.admitted.byKey), e.admitted.waiting
	e.admitted.waiting = nil
	e.mu.Unlock()
	for key, a := range admitted {
		w.Admitted[key] = a.addrs
	}
	for pod := range e.Pods.All() {
		a, ok := admitted[keyOf(pod)]
		if ok && pod.Spec.NodeName == e.Node && pod.UID != a.pod.UID {
			continue // the cache is behind, or has the mirror of a static pod
		}
		w.Pods = append(w.Pods, pod)
		delete(admitted, keyOf(pod))
	}
	for _, a := range admitted {
		known := *a.pod
		known.Spec.NodeName = e.Node
		w.Pods = append(w.Pods, &known)
	}
	return w, waiting
}
