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
//	/stats/summary                               what node, pods, containers and volumes use, a [Summary]
//	/metrics                                     the kubelet's own work, for Prometheus
//	/metrics/resource                            CPU and memory of node, pods and containers, for Prometheus
//	/metrics/cadvisor                            more of each container, for Prometheus
//	/metrics/probes                              the attempts of probes, for Prometheus
//	/configz                                     the configuration
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
// For exec, attach and port-forward, the runtime returns a URL, and the server copies the bytes of
// the upgraded connection in both directions. It buffers little: a slow reader blocks the writer.
// Clients use SPDY/3.1, which the runtime gets as it is, or WebSocket, which the server translates
// to SPDY: v5.channel.k8s.io, v4.channel.k8s.io and v4.base64.channel.k8s.io for exec and attach,
// and SPDY/3.1+portforward.k8s.io for port-forward. The runtime gets WebSockets of other
// subprotocols as they are.
// Idle connections end within minutes, and invalid ones at once. [Config].MaxStreams bounds their
// number; see [StreamLimits]. The commands of a pod start four at a time; a client whose command could not
// start within 20 s gets 429.
//
// Statistics of containers come from the runtime. The CPU rate is that since the previous request
// for /stats/summary, so the first answer about a container has none. With only_cpu_and_memory=true, volumes
// are left out.
//
// /metrics/resource has the names, labels and timestamps of the Kubernetes kubelet. If the runtime
// has no statistics, it is served without them and resource_scrape_error is 1. /metrics/cadvisor
// has what the runtime and the machine report of cAdvisor's series: container_cpu_usage_seconds_total,
// container_memory_usage_bytes, container_memory_working_set_bytes, container_memory_rss,
// container_start_time_seconds and container_last_seen of each container, by container, id, image,
// name, namespace and pod, machine_cpu_cores and machine_memory_bytes. The other series of cAdvisor
// (networks, disks, throttling, page faults) are not included.
//
// # Failure
//
// Errors are plain text: 401, 403 and 404 as usual, 400 for a container without a log yet, 500 if
// the authorizer fails, and 501 for what the runtime does not support. A log that is interrupted
// ends without a message.
//
// # Not included
//
// Statistics of networks and of other file systems than volumes, run, checkpoints, and logs of
// the node itself.
package server
