// Package nodeproxy leads requests of an API server to the nodes: the
// subresources log, exec, attach, portforward and proxy of pods, and proxy of
// nodes and services.
//
//	nodes, err := nodeproxy.New(nodeproxy.Config{Nodes: lookup, TLS: &tls.Config{
//		Certificates: certificates, RootCAs: authority, // the API server's own
//	}})
//	if err != nil { ... }
//	resources := kube.Connect(kube.Resources(), kube.Connections{
//		Log: nodes.Log, Exec: nodes.Exec, Attach: nodes.Attach, PortForward: nodes.PortForward,
//		PodProxy: nodes.PodProxy, NodeProxy: nodes.NodeProxy, ServiceProxy: nodes.ServiceProxy,
//	})
//
// # Model
//
// A pod's kubelet is found by the pod's node: an address of its status and the
// port of its daemonEndpoints. A node may lie about both: the API server shows its
// own client certificate only to a kubelet that has a serving certificate of the
// authority which is good for the address and names the node
// ([Config].VerifyNode). It never connects to itself ([Config].Self). It never sends
// on the user's credentials, nor the impersonated user.
//
// The API server checks options, with Kubernetes' messages, before it sends them to
// a kubelet. It sends the UID of the pod with exec, attach and portforward, so that
// the request never reaches a later pod of the same name by mistake.
//
// The API server copies upgraded connections as bytes, through one buffer. It reads
// only the headers of frames, to end connections that are malformed or lead to
// nothing ([StreamLimits]). A user and a node can each have a limited number of such
// connections. They are SPDY/3.1, or WebSocket in the versions that the kubelet speaks,
// whose own refusal a client gets: stock clients then use SPDY.
//
// proxy of a pod goes from the API server straight to the pod's address, which
// must not be of the machine itself or of its link. proxy of a service is that of
// one of its pods that are ready.
//
// # Failure
//
// Errors are metav1.Status in JSON, with what the kubelet said as the message;
// only refusals of upgrades are passed through as they are. A node that cannot
// be reached is 503 or 502. A redirect is never followed and never passed on
// from a kubelet.
//
// # Left out
//
// Translating WebSocket to SPDY, which kubelets do, rewriting links in what pods answer, ports of
// nodes other than the kubelet's, and proxies between the API server and nodes.
package nodeproxy
