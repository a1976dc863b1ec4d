// Package memruntime is a container runtime in memory: a CRI v1 server on a
// unix socket whose containers are entries in a table. It needs no root, no
// images and no kernel, and answers in microseconds.
//
//	runtime, err := memruntime.New(memruntime.Config{Socket: filepath.Join(dir, "cri.sock")})
//	if err != nil { ... }
//	go runtime.Run(ctx)
//	<-runtime.Ready()
//
// The model: sandboxes and containers have the states, ids, name reservations
// and exit codes that containerd gives them; stop and remove are idempotent.
// A sandbox gets an address from the pod range given by UpdateRuntimeConfig,
// or none on the host's network, and loses it when stopped. NetworkReady is
// false until there is a range. Every well-formed image reference can be
// pulled. Containers run until stopped. [Config] has hooks to make images
// missing, containers crash and calls fail. Containers use the CPU and memory that
// their [Behavior] says; no rate is told, only the CPU time.
//
// The table belongs to the Runtime: it outlives all clients, and dies with Run.
//
// It leaves out: processes, file systems and their statistics, and the streaming
// endpoints; those calls give codes.Unimplemented. Log files are written where
// the client asks for them, so give it a log root of your own.
package memruntime
