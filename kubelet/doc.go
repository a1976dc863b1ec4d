// Package kubelet runs the pods of one node. It takes the Pods bound to the node
// from a local copy, has a container runtime run them over CRI v1, and reports
// what became of them. It never kills a running pod because the API or the
// runtime is away, nor because it was itself restarted.
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
// The truth about what runs is in the runtime, and is read again whenever it
// may have changed; the truth about what should run is the Pod. Between the two
// stands one pure function, plan, which looks at both and at the time and says
// what to do next. One worker per pod looks, plans, acts, and looks again until
// there is nothing to do. Restart counts are the attempt numbers the runtime
// keeps. What only lives in memory is back-offs, which start over when the
// kubelet does.
//
// Workers look when their Pod changes, when the runtime tells of an event, when
// the list of what is in the runtime (every second; every ten if the runtime
// tells of events) differs from the one before, when a back-off is over, and
// every 20 seconds. The newest Pod wins; one that is to be deleted sooner than
// was known interrupts what is under way.
//
// Statuses are written by a reporter per pod, newest only, and never delay the
// worker. Conditions and fields of others are kept; a pod that is over stays so.
//
// Sandboxes carry the label planekit.io/node: several kubelets can share a
// runtime, each with a Root, and a CgroupRoot if any, of its own. What of this
// node's is in the runtime, on disk or in cgroups and not in the API is removed
// every two seconds, once the local copy has been whole.
//
// # Failure
//
// Run returns an error only for what makes it pointless to go on, such as a
// Root that cannot be made. All else is logged, retried, and shown where
// Kubernetes shows it: in container states (ErrImagePull, CrashLoopBackOff,
// CreateContainerConfigError ...), events, and the Node's Ready condition.
//
// # Left out
//
// Probes (a running container is ready), postStart and preStop hooks, static
// pods, ephemeral containers, resizing in place, admission on the node,
// eviction and the garbage collection of images, log rotation, the CPU manager,
// service environment variables. The kubelet's own HTTPS server, for logs, exec,
// attach and port-forward, is package server beside it. Volumes are
// emptyDir, hostPath, configMap, secret, projected and downwardAPI; pods with
// other kinds, with subPath, or with a cluster trust bundle do not start, are
// tried again with a back-off (500 ms, doubled up to 2 min 2 s) and
// say why. A runtime class is passed on by its own name. Containers need Linux;
// without it, or without root, volumes in memory are on disk.
package kubelet
