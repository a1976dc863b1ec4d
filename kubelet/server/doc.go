// Package server is the HTTPS server of a kubelet: what an API server asks a
// node for on behalf of its users.
//
//	s, err := server.New(server.Config{
//		Listener: listener, TLS: &tls.Config{Certificates: certificates},
//		Authenticate: certificate, Authorize: may,
//		Pods: pods, Runtime: runtime, // a *cri.Client
//		LogRoot: "/var/log/pods",
//	})
//	if err != nil { ... }
//	err = s.Run(ctx)
//
// Every route but /healthz needs credentials that Authenticate knows and a
// right that Authorize grants.
//
// # Rights
//
// As in the Kubernetes kubelet, a right is a verb on a subresource of the node:
// stats, metrics, log, spec and checkpoint for the paths of these names, pods,
// healthz or configz or else proxy for theirs, proxy for all others. The verb
// is that of the method, but for running something, attaching and forwarding ports
// it is create whatever the method.
//
// # Routes
//
// The paths are those of the Kubernetes kubelet. A UID, where there is one,
// must be the pod's: a later pod of the same name is not found.
//
//	/healthz                                     ok
//	/pods                                        the pods of the node, a PodList
//	/stats/summary                               what node, pods and containers use, a [Summary]
//	/containerLogs/NAMESPACE/POD/CONTAINER       a container's log
//	/exec/NAMESPACE/POD/[UID/]CONTAINER          a command in a container
//	/attach/NAMESPACE/POD/[UID/]CONTAINER        a container's own streams
//	/portForward/NAMESPACE/POD[/UID]             connections into a pod
//
// # Model
//
// Logs are read from files below LogRoot, which no name and no link leads out
// of, in the format of the CRI: pieces of a line are joined, and a file that is
// rotated while it is followed is read to its end before the next one is. tail
// counts the pieces that are in the file, as Kubernetes does.
//
// For exec, attach and port-forward the runtime names a URL, and the server
// carries the bytes of the upgraded connection there and back, unread. It holds
// no more than a buffer of them: who does not read stops who writes. Connections
// that lead to nothing end within minutes, garbage ends one at once, and
// [Config].MaxStreams are open at most; [StreamLimits] has the details.
//
// Statistics of containers are the runtime's. The rate of CPU is that since
// /stats/summary was last asked for, so the first answer about a container has none.
//
// # Failure
//
// Errors are plain text, with 401, 403 and 404 as usual, 400 for a container
// that has no log yet, 500 where nobody could tell whether the user may, and 501
// for what the runtime cannot do. A log that breaks off in the middle ends without
// a word.
//
// # Left out
//
// Metrics, statistics of file systems and networks, run, checkpoints, and logs of
// the node itself.
package server
