// Package lifecycle holds what a kubelet decides about a pod. All of it is pure: Plan returns the next
// actions for a pod and the state of its containers in the runtime, StopOrder those that end it, and
// Observation.Status the status that the API should have. The package calls nothing and knows no
// clock; Memory is the little that cannot be read from the runtime.
package lifecycle
