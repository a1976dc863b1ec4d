package main

import (
	"net"
	"net/netip"

	"github.com/planekit/planekit/apiserver/advertise"
	"github.com/planekit/planekit/examples/cluster/machine"
)

// advertised is the address by which the cluster reaches this server. It is
// invalid where the host has none but the loopback address.
func (c *cluster) advertised() netip.AddrPort {
	listens, ok := c.address.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	for _, ip := range []netip.Addr{
		c.options.kube.AdvertiseAddress(), c.gateway, listens.AddrPort().Addr().Unmap(), machine.HostAddress(c.podNetwork),
	} {
		if ip.IsGlobalUnicast() {
			return netip.AddrPortFrom(ip, uint16(listens.Port))
		}
	}
	return netip.AddrPort{}
}

// serviceNames returns the names of the API server for clients in the cluster.
func (c *cluster) serviceNames() []string {
	names := []string{advertise.ServiceIP(c.options.kube.ServiceCIDRs()[0]).String(), machine.HostAddress(c.podNetwork).String()}
	if c.gateway.IsValid() {
		names = append(names, c.gateway.String())
	}
	if a := c.advertised(); a.IsValid() {
		names = append(names, a.Addr().String())
	}
	return names
}

// servingHosts returns the names of the API server beside those that every server has.
func servingHosts(address net.Addr, more []string) []string {
	var hosts []string
	if host, _, err := net.SplitHostPort(address.String()); err == nil {
		if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
			hosts = append(hosts, host)
		}
	}
	return append(hosts, more...)
}
