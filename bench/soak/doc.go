// Command soak runs a cluster for an hour under random load, kills it, and shows whether its
// memory, goroutines, open files and disk stay flat.
//
//	make soak DURATION=1h
//	go run ./soak -duration 10m -seed 42 -runtime containerd
//
// The cluster is bin/cluster as a child process, reached over TLS like any other. A run has five
// stages, whose lengths are parts of the duration:
//
//	idle     nothing is asked; what everything is compared with at the end
//	kills    load, and a kill -9 in the middle of it now and then
//	steady   load; flat is what does not grow in this stage
//	drain    everything is deleted
//	cool     nothing is asked until caches and history have given up what they may
//
// The load creates, reads, updates, patches, applies, lists and deletes ConfigMaps, creates Events
// and Services, rolls Deployments out, scales and deletes them, makes namespaces and deletes them
// with all that they hold, and opens watches: good ones, slow ones, and ones that nobody reads.
// All of it lives in namespaces of a few minutes, so that there is about as much at any time.
//
// The run fails where an acknowledged write is lost (every ConfigMap is compared with what the
// server acknowledged after each kill and at the end), where Deployments do not converge or
// namespaces do not end, where the server fails for no reason, where the steady stage is not flat,
// where etcd's log exceeds what etcd's settings let it come to (it grows in steps of 61 MiB, so its
// growth between two times says nothing), or where resident memory does not come back to 1.5 times
// what it was idle.
//
// Samples go to a CSV file, and with it the plot of BENCHMARKS.md. The live heap is what a forced
// collection leaves, once in six samples; resident memory is what the kernel says, file pages of
// the program and of etcd's database included.
package main
