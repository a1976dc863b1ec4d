// Package dns answers the DNS questions of a cluster: those about services and pods from caches of the
// API server, and all others by asking upstream resolvers.
//
//	s, err := dns.New(dns.Config{Services: services, EndpointSlices: slices, PacketConns: conns, Listeners: listeners})
//	err = s.Run(ctx) // s.Ready() is closed once all services are known
//
// # Names
//
// The names are those of the Kubernetes DNS specification 1.1: A, AAAA, SRV and PTR records of services,
// of headless services with the hostnames of their endpoints and of pods by address, CNAME records of
// services of type ExternalName, and the TXT record dns-version. A question about a service that exists
// but has no record of the type gets an empty answer, a question about any other name of the cluster's
// domain NXDOMAIN. Both carry the SOA record, so that clients remember them. Endpoints are in random
// order. Those that are not ready are left out, unless the service has publishNotReadyAddresses.
//
// The index is changed by each change of a service or a slice, and holds the objects of the caches
// themselves. The records of a service are made at the first question after its change. The server asks
// no API server, and goes on answering while there is none. Before the caches have synced, questions
// about the cluster fail with SERVFAIL, because NXDOMAIN would be remembered.
//
// # Other names
//
// Questions about other names are sent to the upstreams, in order, and answers are remembered for as
// long as their TTL says but at most [Config.MaxCacheTTL], negative ones by their SOA record and
// failures for [FailureTTL]. Equal questions at one time are sent once. A chain of CNAME records is
// followed to its end, also into the cluster's domain. Without upstreams such questions are REFUSED.
//
// An answer counts only if it comes from the address that was asked, to a new random port, with the
// random ID and the question that were sent, whose letters are of random case. One with the ID and another question makes the
// server ask over TCP. An upstream decides about the name that it is asked and those that its aliases lead to, but not about names
// of the cluster; its other records are left out, and no TTL is longer than [Config.MaxCacheTTL]. An upstream that leads back to this server is found by a
// question with a random name, and is left out; until then equal questions wait for each other, so that a
// loop does not grow.
//
// # Bounds
//
// The cache, the questions that wait for upstreams, the connections and what a connection may send are
// bounded, see [Config]. An answer that is longer than the client or [MaxUDPSize] allows is truncated, so
// that the client asks again over TCP. Zone transfers are refused.
//
// With [Config.Clients] others are sent nothing, so that they cannot have answers sent to third parties.
//
// Names are those that users choose: a service example in a namespace com is found by pods that ask for example.com
// with their search list, as with every server of the specification.
//
// Listen at addresses, not at the wildcard: an answer leaves from the address of its socket.
package dns
