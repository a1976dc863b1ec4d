// Package controllers has the controllers of a Kubernetes control plane:
// Deployment, ReplicaSet, ReplicationController, Job and the time to live of Jobs,
// disruption budgets, garbage collector, Namespace, ServiceAccount, ClusterRole,
// ResourceQuota, node addresses, node lifecycle, eviction by taints, pod garbage,
// endpoint slices, their mirroring and endpoints, and the tokens of secrets. A
// [Manager] runs those that are chosen.
//
//	replicaSets, err := controllers.NewReplicaSet(controllers.ReplicaSetConfig{
//		ReplicaSets:      replicaSetInformer,
//		Pods:             podInformer,
//		PodsByController: informer.NewIndex(podInformer, controllers.ByController[*corev1.Pod]),
//		Status:           replicaSetClient,
//		Writer:           podClient,
//	})
//	err = replicaSets.Run(ctx)
//
// # Model
//
// Each controller reads local copies (package localcache), decides in a pure
// function, and writes through the narrow interfaces of its config. What it
// keeps in memory may be lost: a new process begins with copies that are new.
// While it runs the copies may be old; four rules make that harmless, without
// any timer:
//
//   - Names are chosen here, from the owner and the state seen. Pods are named
//     with a suffix made from the UID of their controller and a number; the
//     lowest free ones are used, so the name of a pod that is gone is used
//     again. Whoever makes the same decision twice is refused the second time.
//   - A write whose answer was lost is settled before anything else is decided:
//     a create is repeated under its own name.
//   - Updates carry the resource version they were decided on and are refused
//     when it has moved; deletions carry the UID.
//   - Before it looks again at an owner, a controller waits until its copy has
//     what it wrote for that owner itself; a pod it deleted counts as deleted
//     from then on, also in a copy that does not know yet.
//
// So a controller may be killed between any two writes and started again, and
// there will be neither more pods than were asked for nor fewer. A Deployment
// goes on only when the status of its ReplicaSets is about their present
// sizes; so the bounds of a rolling update hold for pods, not only for numbers
// in specs. What remains is a write of a dead process that reaches the API
// after its successor has listed, while pods are going at the same time: it
// may add a pod, which is removed when it is seen. The same holds for two
// processes at once. Of [NodeIPAM] only one may run.
//
// # Failures
//
// Whatever fails is tried again with backoff, per object. Failures that users
// should see become events, with the reasons and texts of Kubernetes.
//
// # Left out
//
// StatefulSets, DaemonSets, CronJobs, autoscaling, volumes
// and certificates; of Jobs, pod groups.
package controllers
