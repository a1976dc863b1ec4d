package podnetwork

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

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
		Clients: newClients(c.Network.Pods).mayAsk,
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

// localPeriod is how long the addresses of the machine count before they are read again.
const localPeriod = time.Second

// clients knows the clients of a node's DNS server: pods, and the machine itself. The server listens at the machine's address,
// which hosts of its network reach: they could direct responses at any victim.
type clients struct {
	pods  netip.Prefix
	local func() ([]net.Addr, error)

	mu sync.Mutex
	// mu guards the fields below.
	own  map[netip.Addr]bool // addresses of the machine
	read time.Time
}

func newClients(pods netip.Prefix) *clients { return &clients{pods: pods, local: net.InterfaceAddrs} }

func (c *clients) mayAsk(a netip.Addr) bool {
	if c.pods.Contains(a) || a.IsLoopback() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own[a] || time.Since(c.read) < localPeriod {
		return c.own[a]
	}
	all, err := c.local()
	if err != nil {
		return false
	}
	c.own, c.read = map[netip.Addr]bool{}, time.Now()
	for _, one := range all {
		if n, ok := one.(*net.IPNet); ok {
			own, _ := netip.AddrFromSlice(n.IP)
			c.own[own.Unmap()] = true
		}
	}
	return c.own[a]
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
