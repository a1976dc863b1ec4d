package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/planekit/planekit/apiserver/advertise"
	"github.com/spf13/pflag"
)

// serviceOptions say where the cluster finds its services and this server.
type serviceOptions struct {
	ranges    []string
	advertise string
	// prefixes are ranges, parsed.
	prefixes []netip.Prefix
}

func (o *serviceOptions) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.ranges, "service-cluster-ip-range", []string{"10.96.0.0/12"}, "addresses of services: a range, or one of each family with that of the default family first")
	flags.StringVar(&o.advertise, "advertise-address", "", "address by which the cluster reaches this API server (default that of --listen, or of the host where that is the loopback address or all)")
}

func (o *serviceOptions) check() error {
	o.prefixes = nil
	if n := len(o.ranges); n == 0 || n > 2 {
		return errors.New("--service-cluster-ip-range must be one range, or one of each family")
	}
	for _, text := range o.ranges {
		r, err := netip.ParsePrefix(text)
		if err != nil || r.Addr().BitLen()-r.Bits() < 2 {
			return fmt.Errorf("--service-cluster-ip-range must have ranges of at least four addresses, not %q", text)
		}
		o.prefixes = append(o.prefixes, r.Masked())
	}
	if len(o.prefixes) == 2 && o.prefixes[0].Addr().Is4() == o.prefixes[1].Addr().Is4() {
		return errors.New("--service-cluster-ip-range must have one range of each family")
	}
	if o.advertise == "" {
		return nil
	}
	ip, err := netip.ParseAddr(o.advertise)
	if err != nil || !ip.IsGlobalUnicast() {
		return fmt.Errorf("--advertise-address must be an address that others can reach, not %q", o.advertise)
	}
	return nil
}

// advertised is the address by which the cluster reaches this server. It is
// invalid where the host has none but the loopback address.
func (c *cluster) advertised() netip.AddrPort {
	listens, ok := c.address.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	host := c.options.services.advertise
	if ip := listens.AddrPort().Addr().Unmap(); host == "" && ip.IsGlobalUnicast() {
		host = ip.String()
	}
	if host == "" {
		host = hostAddress(c.podNetwork)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.IsGlobalUnicast() {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(listens.Port))
}

// serviceNames returns the names of the API server for clients in the cluster.
func (c *cluster) serviceNames() []string {
	names := []string{advertise.ServiceIP(c.options.services.prefixes[0]).String(), hostAddress(c.podNetwork)}
	if a := c.advertised(); a.IsValid() {
		names = append(names, a.Addr().String())
	}
	return names
}
