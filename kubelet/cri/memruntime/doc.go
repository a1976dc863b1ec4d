// Package memruntime is a container runtime in memory: a CRI v1 server on a
// unix socket whose containers are entries in a table. It needs no root, no
// images and no kernel, and answers in microseconds.
//
//	runtime, err := memruntime.New(memruntime.Config{Socket: filepath.Join(dir, "cri.sock")})
//	if err != nil { ... }
//	go runtime.Run(ctx)
//	<-runtime.Ready()
//
// Sandboxes and containers have the states, IDs, name reservations and exit codes of containerd;
// stop and remove are idempotent. A sandbox gets an address from the pod range of
// UpdateRuntimeConfig, or none on the host's network, and loses it when it is stopped. NetworkReady
// is false until there is a range. Every well-formed image reference can be pulled. Containers run
// until stopped. [Config] has hooks that make images missing, containers crash and calls fail.
// Containers use the CPU and memory in their [Behavior]; statistics contain only the CPU time, no
// rate.
//
// The state belongs to the Runtime: it survives its clients and ends with Run.
//
// Not included: processes, file systems and their statistics, and the streaming endpoints; those
// calls return codes.Unimplemented. Log files are written where the client requests them, so give
// each client its own log root.
package memruntime
