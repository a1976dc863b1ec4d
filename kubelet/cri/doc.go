// Package cri talks to a container runtime over the Kubernetes container
// runtime interface, CRI v1, on a unix socket.
//
//	runtime, err := cri.Dial(ctx, "/run/containerd/containerd.sock", cri.Options{})
//	if err != nil { ... }
//	defer runtime.Close()
//	list, err := runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
//
// The model: every call is one gRPC call with a time limit of its own, on one
// connection that mends itself. No call is retried: whether an action that got
// no answer took place is for the caller to find out, by listing. The limits
// are those of the Kubernetes node agent: 2 minutes, 4 minutes for
// RunPodSandbox, 2 minutes and the grace period for StopContainer, and none but
// the caller's for PullImage.
//
// How it fails: errors are gRPC status errors, so status.Code works on them,
// and begin with the name of the call. A runtime that is away gives
// codes.Unavailable at once, not after the limit.
//
// It leaves out the streams of exec, attach and port-forward: CRI gives a URL
// for those, and to dial it is another's business. Package memruntime is a
// runtime to talk to where none is installed.
package cri
