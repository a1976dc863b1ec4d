// Package metricsapi is a server of the API metrics.k8s.io/v1beta1: what nodes and pods use, which
// kubectl top shows. It does what metrics-server does
// (https://kubernetes.io/docs/tasks/debug/debug-cluster/resource-metrics-pipeline/).
//
//	server, err := metricsapi.New(metricsapi.Config{
//		Nodes: nodes, Pods: pods, // local caches
//		Kubelets: &metricsapi.Kubelets{TLS: config},
//	})
//	go server.Run(ctx)
//	handler := authn.Handler(authz.Handler(server, authorizer, metricsapi.Attributes), proxies)
//
// Handler is what an APIService leads to. A Server does not authenticate: it is to stand behind
// handlers that do.
//
// # Model
//
// Each node's kubelet is asked for /metrics/resource once every Resolution, and twice within 5 seconds of
// the start of a container. CPU usage is the CPU time between the last two answers, divided by the time
// between their timestamps, which is the window. It is known after the second answer. A container that
// began between 10 seconds and one Resolution before the first answer is measured since it began. Memory
// is the working set in the last answer. A pod is served when all of its containers in the last answer
// are known.
//
// Objects are made of the caches and the numbers: they have the labels of their node or pod, and
// lists select by them. Timestamps are the kubelet's own.
//
// # Failure
//
// A kubelet that does not answer is asked again after Resolution. Its last numbers are served, with
// their timestamps, until they are three Resolutions old; then its node and pods have none. Lists
// leave out what has no numbers, and a get answers 404, as metrics-server does. A node that fails
// twice in a row is logged, and when it answers again.
//
// An answer is limited in time (Timeout), in bytes and in the length of its lines, and it must be
// valid to its end. A kubelet is believed only about its own node and the containers of the pods
// that are bound to it, and not if a value is negative or not finite. It can lie about these.
// Kubelets are asked independently of each other, so that one that hangs delays no other.
//
// # Not included
//
// Watches, limits of lists, protobuf, an OpenAPI document, custom and external metrics.
package metricsapi
