// Package servicetest makes networks of namespaces on Linux in which rules of services and policies
// are tried with real packets: a node, pods at its bridge, pods of another node, and clients outside
// of the cluster.
//
//	n := servicetest.NewNetwork(t)
//	web := n.Pod("web")
//	web.Serve("tcp", 8080)
//	answer, err := n.Outside.Ask("tcp", "10.65.200.10:80")
//
// [Host.Send] sends what a hostile pod would, and [Host.Listen] has what arrives.
//
// Servers answer with the name of their host and the address of the client. Everything is removed when
// the test ends. It needs root.
package servicetest
