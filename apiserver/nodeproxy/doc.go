// Package nodeproxy leads requests of an API server to the nodes: the
// subresources log, exec, attach, portforward and proxy of pods, and proxy of
// nodes.
//
//	nodes, err := nodeproxy.New(nodeproxy.Config{Nodes: lookup, TLS: &tls.Config{
//		Certificates: certificates, RootCAs: authority, // the API server's own
//	}})
//	if err != nil { ... }
//	resources := kube.Connect(kube.Resources(), kube.Connections{
//		Log: nodes.Log, Exec: nodes.Exec, Attach: nodes.Attach, PortForward: nodes.PortForward,
//		PodProxy: nodes.PodProxy, NodeProxy: nodes.NodeProxy,
//	})
//
// # Model
//
// A pod's kubelet is found by the pod's node: an address of its status and the
// port of its daemonEndpoints. A node may lie about both: the API server shows its
// own client certificate only to a kubelet that has a serving certificate of the
// authority which is good for the address and names the node
// ([Config].VerifyNode). It never connects to itself ([Config].Self). What the user
// proved who they are with is never sent on, nor who they impersonate.
//
// Options are checked here, before a kubelet hears of them, with Kubernetes'
// messages. The UID of the pod goes along to exec, attach and portforward, so
// that a later pod of the same name is never entered by mistake.
//
// Upgraded connections are carried through as bytes, with no more than a buffer
// held; only headers of frames are looked at, to end what is garbage or leads to
// nothing ([StreamLimits]). A user and a node have so many of them at most. They are SPDY/3.1, or WebSocket in the versions that
// runtimes speak. Version 5 of the WebSocket protocol and port-forward over
// WebSocket are refused before anything has happened, upon which stock clients
// use SPDY.
//
// proxy of a pod goes from the API server straight to the pod's address, which
// must not be of the machine itself or of its link.
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
// Translating WebSocket to SPDY, rewriting links in what pods answer, ports of
// nodes other than the kubelet's, and proxies between the API server and nodes.
package nodeproxy
