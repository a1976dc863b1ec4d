// Package advertise keeps the objects by which a cluster finds its API servers:
// the Service default/kubernetes with its Endpoints and its EndpointSlice, and the
// ServiceCIDR kubernetes.
//
//	leases := advertise.StoreLeases(store)
//	a, err := advertise.New(advertise.Config{
//		Services:       typed.Services(api),
//		Endpoints:      typed.Endpoints(api),
//		EndpointSlices: typed.EndpointSlices(api),
//		ServiceCIDRs:   typed.ServiceCIDRs(api),
//		Leases:         leases,
//		Address:        netip.MustParseAddrPort("192.0.2.1:6443"),
//		Ranges:         []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
//	})
//	err = a.Run(ctx) // once the server serves
//
// # Model
//
// Several servers of one store share the objects. Each renews a lease of its own,
// a record with a time to live, and writes the addresses of all leases into the
// Endpoints and the EndpointSlice. A server that dies is gone from them once its
// lease has ended, after 15 s and a few more; one that is stopped removes itself.
// All servers come to the same objects, so that none undoes what another wrote. The
// objects are looked at every 10 s: what a user changes in the endpoints or deletes
// is put right then. The Service is made and never changed.
//
// The leases of [StoreLeases] lie where kube-apiserver has its own and are written
// as it reads them, so that both may serve one etcd.
//
// # Failures
//
// Every failure is logged and tried again a second later. No address is removed from
// the endpoints because leases cannot be read.
//
// # Left out
//
// Endpoints have one port for all addresses. Where servers have several, those
// count that have the port of the first address; the others are not listed, and
// say so in their logs. Endpoints are of one family.
package advertise
