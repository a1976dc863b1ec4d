// Package kubelet runs the pods of one node. It reads the Pods bound to the node from a cache, runs
// them in a container runtime over CRI v1, and reports their status. It never kills a running pod
// because the API or the runtime is unavailable, or because the kubelet was restarted.
//
//	node, err := kubelet.New(kubelet.Config{
//		NodeName: "node-1", Root: "/var/lib/kubelet",
//		Runtime: runtime, Images: runtime, // a *cri.Client
//		Pods: pods, PodStatus: api, Nodes: nodes, Leases: leases,
//	})
//	if err != nil { ... }
//	err = node.Run(ctx)
//
// # Model
//
// The runtime holds the actual state, which is read again whenever it may have changed; the Pod is
// the desired state. A pure function, lifecycle.Plan, compares both at the current time and returns
// the next actions. One worker per pod observes, plans and acts until there is nothing to do. Restart counts
// are the attempt numbers that the runtime stores, and never fall. Only backoffs are kept in memory; they start
// over with the kubelet.
//
// A worker runs when its Pod changes, when the runtime reports an event, when the list of the
// runtime's containers (read every second, or every ten seconds if the runtime reports events) has
// changed otherwise than by the worker, when a backoff is over, and every 20 seconds (Config.SyncPeriod). It
// uses the newest Pod. A Pod that must end sooner than before interrupts the work in progress.
//
// A container whose restart rule says so restarts all containers of its pod in place: they are killed, and
// the init containers run again, in the same sandbox. The runtime remembers which containers belong
// together.
//
// A reporter per pod writes the newest status and never delays the worker. The status of a pod that only
// begins to start waits half a second for a newer one, because most pods run by then. It keeps conditions and
// fields of other writers. The phase of a pod that has ended does not change any more. Such a pod gives
// back its volumes, with what is in them, and its cgroup; its logs stay until the API deletes it.
//
// A pod that is deleted is stopped, then loses its volumes, cgroup, directory and logs, and is then deleted
// from the API. Its dead containers and sandboxes are removed last, as in Kubernetes, after other pods that start
// or stop. A kubelet that is killed before removes them when it runs again.
//
// The node has the last word about a pod that has not started (package admission). Pods are asked
// about one after the other, and those that have started before a restart are not asked again. A
// refused pod fails with a reason and does not start. A critical pod ends others if it lacks only
// resources, and waits for them. Shutdown ends all pods in order because the machine shuts down.
//
// Probes run beside the workers (package probe); a result that changes something starts a sync.
// Hooks (package hook) run inside a sync: a container's postStart hook before the next container
// is started, its preStop hook within the grace period. StopPods calls no hooks.
//
// Static pods (Config.StaticPods, package staticpods) come from the node itself and do not wait for
// the API server. They hide its pods with the same names. A changed static pod starts when the
// earlier one has ended. Each has a mirror pod in the API that shows its status, and that is created
// again when a client deletes it. Mirror pods never run; those without a static pod are deleted. A
// kubelet without an API server runs static pods alone: Config.Pods, PodStatus, Nodes and Leases are
// then nil, and package server can show the pods of [Kubelet.Pods]. Package plane/standalone joins these.
//
// Sandboxes have the label planekit.io/node: several kubelets can share a runtime, each with its
// own Root and CgroupRoot. Sandboxes, directories and cgroups of this node without a Pod in the API
// are removed every two seconds, once the cache has synced.
//
// A pod keeps the resources that it was allocated: a change of its spec by pods/resize takes effect
// once the node has room for it, in the pod's cgroup and in the containers, which are restarted only
// if their resize policy says so. What was allocated is a file in the pod's directory. Without it,
// the sizes in the spec apply, and no container is restarted.
//
// Pods have cgroups below CgroupRoot by their quality of service, as in Kubernetes: burstable and besteffort
// hold those pods, Guaranteed pods are next to them. All burstable pods together weigh what they request,
// all best effort pods next to nothing. A pod that an earlier kubelet started in another of these places
// stays there. Cgroups of version 1 and 2 are supported; what is mounted decides.
//
// With Config.CPUManager, containers of Guaranteed pods can have CPUs of their own (package
// cpumanager).
//
// # The Node
//
// The Node's status is checked every ten seconds and after a change, and written if it differs or is
// five minutes old. What KubeReserved, SystemReserved and the hard thresholds of evictions keep is not
// allocatable; all pods together are limited to the rest, without the thresholds, if there is a
// CgroupRoot and Cgroups.Enforce says so. A node whose runtime has not listed what it runs for three minutes is
// not ready. Volumes in use are not reported.
//
// # Failure
//
// Run returns an error only if it cannot continue, for example if it cannot create Root, or if the state
// file of the CPU manager is broken. All other
// errors are logged, retried, and reported as in Kubernetes: in container states (ErrImagePull,
// CrashLoopBackOff, CreateContainerConfigError ...), events, and the Node's Ready condition.
//
// On a full disk, an event says what could not be made, and the step is retried with a backoff. The files
// of volumes and of the kubelet's state are replaced as a whole or not at all; a damaged one is named when
// it is read. A registry that hangs holds the other pulls, if they are serial, but no pod whose images are
// there. What the author of a pod can make grow is bounded: the variables of a container to 16 MiB with all
// that they expand to, the files in a pod's volumes that the kubelet writes to 64 MiB, its mounts on the node
// to 600, messages in events and statuses to some KiB, and grace periods to 68 years.
//
// # Not included
//
// SELinux labels of volumes, the systemd cgroup driver, protection of memory by cgroups (MemoryQoS), and
// reserving it for a quality of service (QOSReserved). Package server is the kubelet's HTTPS server for
// logs, exec, attach and port-forward. The supported volumes are emptyDir, hostPath, configMap,
// secret, projected, downwardAPI, image, and claims and ephemeral volumes on persistent volumes that
// are directories (local and hostPath, not block devices); Config.Volumes adds other types, see
// package volumes.
// Pods with volumes that no type supports, or with a pod certificate, do not start; they are
// retried with a backoff (500 ms, doubling up to 2 min 2 s) and report the reason. Containers need
// Linux; without it, or without root, volumes in memory are on disk.
package kubelet
