package machine

import (
	"net"
	"net/netip"
)

// HostAddress returns the address at which others reach the machine, or the loopback address if it has
// no other. Bridges of clusters, and addresses of pods, do not count: they end with a cluster.
func HostAddress(pods netip.Prefix) netip.Addr {
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	interfaces, err := net.Interfaces()
	if err != nil {
		return loopback
	}
	for _, link := range interfaces {
		if _, ofCluster := ClusterOf(link.Name); ofCluster {
			continue
		}
		addresses, err := link.Addrs()
		if err != nil {
			continue // the link has just gone
		}
		for _, address := range addresses {
			network, ok := address.(*net.IPNet)
			if !ok {
				continue
			}
			ip, ok := netip.AddrFromSlice(network.IP.To4())
			if ok && ip.IsGlobalUnicast() && !pods.Contains(ip) {
				return ip
			}
		}
	}
	return loopback
}
