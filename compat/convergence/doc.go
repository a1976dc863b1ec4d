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
// pods and makes them run, end or disappear, one at a time, always the first pod that
// is due in the order of their creation. Between two of its writes it waits until the
// controllers make no more changes, so that the states in between do not depend on
// the speed of a controller.
//
// [metrics] serves what pods use, which a scenario sets, through the API server.
//
// [names] replaces values that necessarily differ before they are compared.
package convergence
