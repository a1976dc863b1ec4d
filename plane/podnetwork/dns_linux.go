package podnetwork

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/service/dns"
	dnsmetrics "github.com/planekit/planekit/service/dns/metrics"
)

// resolvers is the file with the resolvers of the machine.
const resolvers = "/etc/resolv.conf"

// startDNS starts the DNS server of a node, whose metrics it registers. The rules of services lead to it from the address
// of kube-dns.
func startDNS(s *stack.Stack, c Config, services localcache.Subscriber[*corev1.Service], endpoints localcache.Subscriber[*discoveryv1.EndpointSlice],
	registry prometheus.Registerer) error {
	measured := dnsmetrics.New("dns://:53", ".") // as CoreDNS is called behind the same Service
	if err := registry.Register(measured); err != nil {
		return err
	}
	at := net.JoinHostPort(c.Address.String(), strconv.Itoa(DNSPort))
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return fmt.Errorf("DNS: %w", err)
	}
	s.OnStop("DNS listener", func() error { listener.Close(); return nil })
	conn, err := net.ListenPacket("udp", at)
	if err != nil {
		return fmt.Errorf("DNS: %w", err)
	}
	s.OnStop("DNS socket", func() error { conn.Close(); return nil })
	config := dns.Config{
		Domain: Domain, Services: services, EndpointSlices: endpoints, PacketConns: []net.PacketConn{conn}, Listeners: []net.Listener{listener},
		Addresses: []netip.Addr{c.Network.DNS}, ReverseRanges: append([]netip.Prefix{c.Network.Pods}, c.Network.Services...), Meters: measured.Meters(), Log: c.Log.WithName("dns"),
	}
	if config.Upstreams, err = upstreams(resolvers); err != nil {
		return err
	}
	config.Upstreams = slices.DeleteFunc(config.Upstreams, func(a netip.AddrPort) bool { return a.Addr() == c.Network.DNS })
	if len(config.Upstreams) == 0 {
		config.Log.Info("this machine has no resolvers: names outside of the cluster are refused", "file", resolvers)
	}
	server, err := dns.New(config)
	if err != nil {
		return err
	}
	s.Start("DNS", server.Run)
	return nil
}

// upstreams returns the resolvers in a file, or none if there is no file.
func upstreams(path string) ([]netip.AddrPort, error) {
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all, err := dns.ParseResolvers(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}
