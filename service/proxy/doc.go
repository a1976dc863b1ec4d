// Package proxy makes connections to a Service reach one of its endpoints. On Linux a [Proxy] keeps the
// rules of a node in nftables, as kube-proxy does in its nftables mode.
//
//	p, err := proxy.New(proxy.Config{Node: "node-1", Services: services, EndpointSlices: slices, Nodes: nodes})
//	err = p.Run(ctx) // p.Ready() is closed once all services are served
//
// # Rules
//
// [Site.Fragment] is a pure function of one service, its slices and the node. A map of the kernel leads
// from an address, a protocol and a port to a chain, and the chain translates to an endpoint that is
// chosen at random. Ports with a cluster address alone share chains, one for each number of endpoints,
// so that a change of endpoints adds no rule. The change of a service writes the elements and chains of
// that service alone, in one transaction; existing connections do not notice it.
//
// Served are cluster addresses, node ports (not at loopback addresses), external addresses and those of
// load balancers with their source ranges, session affinity, internal and external traffic policies,
// topology hints, and health check node ports. If no endpoint is ready, those that terminate and still
// serve are used. A service without endpoints, and a port of a cluster address that no service has, are
// refused at once. A pod that reaches itself through a service is masqueraded. Headless services and
// ExternalName need nothing here.
//
// # Faults
//
// The kernel's table is compared when the proxy starts, and whenever another program changed any table:
// what was removed by hand is back within seconds. The rules stay when the proxy ends, and the next one
// goes on with them. Only one process keeps a table, see [ruleset.ErrOwned]. Changes that come faster
// than [Config.MinPeriod] are written together. UDP flows to an endpoint that has ended are removed from
// the kernel's table of connections; TCP connections are left to their ends, as kube-proxy does. When
// that table is nearly full, the log and [Meters] say so.
//
// Two services that want the same external address get it by age, the younger one gets an event.
package proxy
