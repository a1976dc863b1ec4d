// Package controllers runs the controllers of a Kubernetes control plane, and holds the interfaces
// through which they read and write. Each controller is a package below this one: account,
// clusterrole, deployment, disruption, endpoints, garbage, job, namespace, node, quota,
// replicaset and volume. Package owner holds what controllers that own other objects share. A [Manager] runs the
// chosen controllers.
//
//	replicaSets, err := replicaset.New(replicaset.Config{
//		ReplicaSets:      replicaSetInformer,
//		Pods:             podInformer,
//		PodsByController: informer.NewIndex(podInformer, owner.ByController[*corev1.Pod]),
//		Writer:           replicaSetClient,
//		PodWriter:        podClient,
//	})
//	err = replicaSets.Run(ctx)
//
// # Configuration
//
// The Configs are alike. A field with the plural name of a resource is its cache, XByY is an index of
// X, Writer writes the controller's own resource and XWriter another one, and XReader reads from the
// API. Caches, indexes and writers are required, except where the field says what nil means. Events,
// Workers, Metrics and Log are always optional.
//
// # Model
//
// Each controller reads caches (package localcache), decides in a pure function, and writes through
// the narrow interfaces of its Config. Its memory may be lost: a new process starts from new caches.
// While it runs, the caches may be stale; four rules make that harmless without any timer:
//
//   - The controller chooses names itself, from the owner and the state it saw. Pods are named with a
//     suffix made from the UID of their controller and a number; the lowest free numbers come first,
//     so that the name of a deleted pod is used again. A second process that makes the same
//     decision is refused.
//   - A write without an answer is settled before anything else is decided: a create is repeated
//     under its own name.
//   - Updates carry the resource version on which they were decided, and are refused if it has
//     changed. Deletions carry the UID.
//   - Before it looks at an owner again, a controller waits until its caches show its own writes for
//     that owner. A pod that it deleted counts as deleted from then on, also in a stale cache.
//
// So a controller may be killed between any two writes and started again, and there are neither
// more pods than requested nor fewer. A Deployment continues only when the status of its ReplicaSets
// is about their present sizes, so that the bounds of a rolling update hold for pods and not only for
// numbers in specs. One case remains: a write of a dead process may reach the API after its
// successor has listed, while pods are being deleted. It may add a pod, which is deleted when
// it is seen. The same holds for two processes at once. Only one process may run the node package's
// IPAM.
//
// # Failures
//
// A failure is retried with backoff, per object. Failures that users should see become Event objects
// with the reasons and messages of Kubernetes.
//
// # Left out
//
// StatefulSets, DaemonSets, CronJobs, autoscaling and certificates; of Jobs, pod groups; of volumes,
// making, resizing and deleting them.
package controllers
