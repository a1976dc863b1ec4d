// Package kubelet runs the pods of one node. It takes Pods bound to the node
// from a local copy, has a container runtime run them, and reports what became
// of them.
package kubelet
