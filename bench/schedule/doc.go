// Command schedule measures how fast pods are placed on nodes, by planekit's scheduler and by the stock
// kube-scheduler, in eight workloads.
//
//	go run ./schedule --nodes 5000 --pods 10000 --workload basic --peer both
//
// The stock scheduler runs twice: it looks at all nodes, as planekit does, and with its default, which in
// large clusters stops when it has found enough nodes that fit.
//
// With --mode core it runs the decision alone, without an API server: for each pod, choose a node and charge
// the pod to it. For planekit that is State.Decide and State.Assume, for the stock scheduler a pass through
// its queue, Scheduler.SchedulePod over a new snapshot, and AssumePod. When a pod preempts others, both choose
// the victims, which leave at once, and decide again. Both have the plugins of their default profile. The
// heap a pod of the stock scheduler includes its copy of the pod, which it keeps until the pod is bound.
//
// With --mode cluster each scheduler binds the pods of a planekit API server in memory, over TLS, as the
// administrator and without a limit of requests. All pods are pending when it starts, and time passes until
// the last one is bound. Victims end 50 ms after they were deleted. The processor time is that of the process, in which the API server runs as well.
//
// With --mode pair, planekit's API server and scheduler, and the stock kube-apiserver and kube-scheduler with
// their defaults, each run as processes of their own over a stock etcd, and a client creates pods. First they
// all wait when the scheduler starts, then 32 connections create as many again, and then some are created one
// after another, each when the one before is bound. A watch of the client tells when a pod is bound.
//
// With --mode dryrun, both search for the victims of a pod that fits no node among 20,000 pods: planekit by
// State.Preempt over all nodes, the stock scheduler by DryRunPreemption over as many as its default looks at. Before each
// search, 100 pods leave and others come. The decision before it is not measured.
//
// With --mode growth, the time of a decision is measured while the nodes, the running pods, or the classes of pods
// grow. --out is the data file; its plot is beside it. --mode plot draws it again.
//
// With --mode quality, both decide about the same generated traces with all nodes scored, and the table shows how
// well they pack and spread the pods.
//
// --out writes the tables to a file in Markdown.
package main
