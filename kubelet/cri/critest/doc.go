// Package critest checks that a container runtime behaves as the kubelet expects of CRI v1: what
// Kubernetes' own suite of the same name checks and needs no shell, and what the kubelet relies on
// beyond it.
//
//	func TestRuntime(t *testing.T) {
//		critest.Run(t, critest.Config{Runtime: client, Image: "registry.test/program:1", Command: []string{"/program"}, LogRoot: dir})
//	}
//
// The checks are made through the client that the kubelet uses, or any other with its methods. Each
// check makes sandboxes of its own with random names and removes them. It leaves others alone, so
// that the runtime may be in use. Containers run package program, which the image must hold.
//
// A check waits at most a minute for the runtime. Checks of a [Feature] that the runtime lacks are
// left out, and the test's log says so; [Config.Lacks] names the features.
//
// The source of an expectation is the CRI definition
// (https://github.com/kubernetes/cri-api/blob/v0.36.0/pkg/apis/runtime/v1/api.proto), unless a comment
// names another.
//
// Streams are checked over SPDY/3.1 at the URLs that the runtime gives.
//
// Not included: what processes see inside a container.
package critest
