// Package router passes HTTP requests to the backends that Ingresses name. It knows no API server:
// its caller gives it objects.
//
//	own := router.Own(controller, "", ingresses, classes)
//	table := router.NewTable(own)                // a pure function
//	backend, ok := table.Find("shop.example.com", "/cart")
//
//	proxy, err := router.NewProxy(router.Config{}) // an http.Handler
//	proxy.SetTable(table)
//	proxy.SetService("default/shop", router.Endpoints(service, slices))
//	err = proxy.SetSecret("default/shop-tls", secret) // for proxy.Certificate
//	err = proxy.Serve(ctx, listener)
//
// # Rules
//
// A rule with the host of a request comes before one with a wildcard for its first label, and that
// before a rule without a host. Among the rules for a host the longest path that matches wins, and an
// exact path before a prefix. Prefixes are compared by element. An ImplementationSpecific path is a
// prefix. A request that no rule for a host matches is tried with the next host, then with the default
// backends: those of Ingresses with a rule for the host first, then the oldest of all. If two Ingresses
// want the same path of a host, the older one gets it, and [Table.Problems] has an entry.
//
// Paths are compared as they are after decoding, and adjacent slashes count as one. [Table.Find] matches
// no path with an element "." or "..": the backend could understand another path than the rules do.
//
// # Failure
//
// A proxy serves every request from one table. A service without ready endpoints is answered with 503,
// an endpoint that cannot be reached with 502, one that does not answer in time with 504. A request goes
// to another endpoint only if the first got none of its body: after a connection that was refused, or,
// without a body, if the request may be repeated. Endpoints that refuse are avoided for some seconds.
//
// Not included: backends other than services, services of type ExternalName, TLS to backends, HTTP/2
// without TLS, annotations.
package router
