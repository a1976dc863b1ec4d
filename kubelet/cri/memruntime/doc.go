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
// # Programs
//
// There are no processes. A [Program] is a function with streams: the main program of a container
// ([Behavior].Program), or a command that is executed in one ([Config].Exec). Ports are functions of
// a connection ([Behavior].Listen). Exec, attach and port-forward reach them as they reach processes,
// at a URL that speaks SPDY/3.1:
//
//	memruntime.Behavior{
//		Program: func(ctx context.Context, s memruntime.Streams) int32 {
//			io.Copy(s.Stdout, s.Stdin) // to attached clients, and to the log
//			return 0
//		},
//		Listen: func(port uint16) func(context.Context, net.Conn) { return serve },
//	}
//
// [Command] has the few commands that need no files, and [Wget] one that needs a network; others are not
// found. [Runtime.DialPod] connects to a port of a pod by its address. A terminal echoes lines
// and knows Ctrl-C, Ctrl-D and Backspace. A program that is not told to read and write neither reads
// nor writes: a client that attaches stays until the container ends or, as with containerd, until its
// own input ends. A client that does not read its output blocks the program.
//
// The state belongs to the Runtime: it survives its clients and ends with Run.
//
// Not included: processes, file systems and their statistics. Log files are written where the client
// requests them, so give each client its own log root.
package memruntime
