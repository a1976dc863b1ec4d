// Package cri is a client of container runtimes for the Kubernetes container runtime interface, CRI
// v1, on a unix socket.
//
//	runtime, err := cri.Dial(ctx, "/run/containerd/containerd.sock", cri.Options{})
//	if err != nil { ... }
//	defer runtime.Close()
//	list, err := runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
//
// Every call is one gRPC call with its own timeout, on one connection that reconnects by itself.
// Calls are not retried: after an action without an answer, the caller must list to find out
// whether it took place. The timeouts are those of the Kubernetes kubelet: 2 minutes, 4 minutes for
// RunPodSandbox, 2 minutes plus the grace period for StopContainer, and none for PullImage.
//
// Failures: errors are gRPC status errors, so that status.Code works, and begin with the name of
// the call. If the runtime is unavailable, calls fail at once with codes.Unavailable.
//
// Not included: the streams of exec, attach and port-forward. CRI returns a URL for those, which
// the caller must dial. Package memruntime is a runtime for machines without one.
package cri
