// Package convergence compares what controllers make of the same manifests: ours
// and the stock kube-controller-manager, over our API server and over a stock
// kube-apiserver.
//
// A [Side] is one API server with one set of controllers. On each side the same
// [Scenario] is played in a namespace of its own: a step changes something, then
// the room settles, then everything that is in it is written down. What two sides
// have written down must be the same, step by step: objects with their status,
// conditions, labels, annotations, owners and finalizers, and the events.
//
// There is no kubelet. [hollow] stands for the scheduler and the kubelet: it binds
// pods, has them run, end or go, one at a time, and always the first that is due in
// the order in which they came; between two of its writes it waits until the
// controllers have nothing more to say. So what is seen in between does not depend
// on who is faster.
//
// What is necessarily different is given other names before it is compared: see
// [names].
package convergence
