// Package flowcontrol decides which requests a server handles at once and which
// wait, as API Priority and Fairness of Kubernetes v1.36 does
// (https://kubernetes.io/docs/concepts/cluster-administration/flow-control/).
// Package apiserver asks a [Controller] about every request.
//
//	controller, err := flowcontrol.NewController(flowcontrol.Default(600))
//	go controller.Run(ctx)
//	ticket, err := controller.Enter(ctx, &flowcontrol.Request{User: "jane", Verb: "list", Resource: "pods"})
//	defer controller.Leave(ticket)
//
// [Core] makes the decisions and has no clock, goroutine, lock or IO: time is an
// argument, and the same calls give the same decisions. [Controller] puts a mutex,
// channels and the clock around it.
//
// # Model
//
// A [Schema] matches requests and names a priority [Level]. The requests of a schema
// are divided into flows, by user or by namespace. A level has a limit of seats. A
// request takes one or more seats while it is handled and may keep seats for a moment
// longer. The seats in use exceed the limit only after the limit was lowered, and only
// until requests leave.
//
// A request of a level with queues joins one of them. A hash of the flow's name picks
// a few queues, the hand of the flow, and the request joins the one with the least
// waiting work. A flow that fills its hand therefore leaves other flows a queue with
// great probability. The queues share the seats by fair queuing: each has a virtual
// time at which its first request would start if all queues were served at once, and
// the request that would finish first starts first. A request is charged 3 ms until
// its duration is known.
//
// A request waits only while its level has no room for the request that is next. A
// wide request that is next holds back the others until enough seats are free.
//
// Each level has a nominal limit, its share of all seats. Every [AdjustPeriod] levels
// with less demand lend seats to those with more.
//
// # Failure
//
// A request is rejected with [ErrQueueFull] or [ErrNoSeat]. How long it waits is up to
// the caller: the context of [Controller.Enter], or [Core.Cancel].
//
// # Differences from Kubernetes
//
// A full queue rejects requests also while a wide request waits for seats that are
// partly free. A level with a limit of zero starts nothing, also if it has no queues.
// A request that is wider than its level starts when no seat of the level is in use or
// lingers, and is charged the whole limit. A cancelled request lets others start at
// once. Seats linger for a minute at most.
package flowcontrol
