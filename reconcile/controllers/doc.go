// Package controllers has the controllers of a Kubernetes control plane:
// Deployment, ReplicaSet, Job, garbage collector, Namespace, ServiceAccount,
// node addresses, node lifecycle and pod garbage.
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
// Each controller reads local copies ([Cache], [Index]), decides in a pure
// function, and writes through the narrow interfaces of its config. It keeps
// nothing that cannot be lost. The copies may be old; three rules make that
// harmless, without any timer:
//
//   - Names are a function of the owner and the state seen, so a create that is
//     repeated, by whoever and after whatever failure, meets what the first one
//     made and is refused. Pods are named with a suffix made from the UID of
//     their controller and a number; the lowest free ones are used, so the name
//     of a pod that is gone is used again.
//   - Updates carry the resource version they were decided on and are refused
//     when it has moved; deletions carry the UID.
//   - Before it looks again at an owner, a controller waits until its copy has
//     what it wrote for that owner itself; a pod it deleted counts as deleted
//     from then on, also in a copy that does not know yet.
//
// So a controller may be killed at any point and started again, and two of
// them may run at once: for the same state they make the same objects. The
// exception is [NodeIPAM], of which only one may run.
//
// # Failures
//
// Whatever fails is tried again with backoff, per object. Failures that users
// should see become events, with the reasons and texts of Kubernetes.
//
// # Left out
//
// Proportional scaling of a Deployment in mid-rollout, rollback, terminating
// replica counts; for Jobs the Indexed mode, pod failure and success policies,
// pod replacement policy, adoption of pods, and the time to live after the end;
// taint-based eviction.
package controllers
