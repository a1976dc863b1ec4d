// Command soak runs a cluster for an hour under random load, kills it, and shows whether its
// memory, goroutines, open files and disk usage stay flat.
//
//	make soak DURATION=1h
//	go run ./soak -duration 10m -seed 42 -runtime containerd
//
// The cluster is bin/cluster as a child process, which is reached over TLS like any other. A run
// has five stages, whose lengths are parts of the duration:
//
//	idle     no load; the baseline for the end
//	kills    load, with a kill -9 at random times
//	steady   load; measures must not grow in this stage
//	drain    everything is deleted
//	cool     no load, until caches and history have expired
//
// The load creates, reads, updates, patches, applies, lists and deletes ConfigMaps, creates Events
// and Services, rolls Deployments out, scales and deletes them, creates namespaces and deletes them
// with their contents, and opens watches: good ones, slow ones, and ones without a reader.
// Namespaces live for a few minutes, so that the number of objects is about constant.
//
// The run fails if an acknowledged write is lost (every ConfigMap is compared with the acknowledged
// value after each kill and at the end), if Deployments do not converge or namespaces do not end,
// if the server fails without a reason, if the steady stage is not flat, if etcd's log exceeds the
// maximum by etcd's settings (it grows in steps of 61 MiB, so that its growth between two times is
// meaningless), or if resident memory does not return to 1.5 times the idle one.
//
// Samples go to a CSV file. The plot that is drawn from them is in docs/benchmarks/soak.md. The
// live heap is the heap after a forced collection, in one of six samples; resident memory is the
// kernel's figure, including file pages of the program and of etcd's database.
package main
