package dns

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// records hold what the names of one service stand for. They are immutable.
type records struct {
	// external is the name that an ExternalName service stands for, with its last dot.
	external string
	// headless means that the addresses of the service are those of its endpoints.
	headless bool
	// addrs are the cluster addresses, or those of the endpoints, each once.
	addrs []netip.Addr
	// ports belong to the service.
	ports []port
	// targets are the ports of endpoints.
	targets []target
	// hosts finds the addresses of endpoints by hostname.
	hosts map[string][]netip.Addr
	// names finds the hostnames of endpoints by address.
	names map[netip.Addr][]string
}

// port is a port of a service or an endpoint. Name and protocol are in lower case.
type port struct {
	name, protocol string
	number         uint16
}

// target is a port of an endpoint.
type target struct {
	port
	hostAddr
}

// hostAddr is an address of an endpoint with its hostname.
type hostAddr struct {
	host string
	addr netip.Addr
}

// makeRecords makes the records of a service.
func makeRecords(s *corev1.Service, all map[string]*discoveryv1.EndpointSlice) *records {
	r := &records{}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		if _, err := netip.ParseAddr(s.Spec.ExternalName); err != nil && s.Spec.ExternalName != "" {
			r.external = strings.TrimSuffix(s.Spec.ExternalName, ".") + "."
		}
		return r
	}
	r.addrs = clusterIPs(s)
	r.headless = s.Spec.ClusterIP == corev1.ClusterIPNone
	for _, p := range s.Spec.Ports {
		r.ports = append(r.ports, port{strings.ToLower(p.Name), protocolOf(&p.Protocol), uint16(p.Port)})
	}
	m := maker{records: r, all: s.Spec.PublishNotReadyAddresses, seenTargets: map[target]bool{}, seenAddrs: map[hostAddr]bool{}}
	for _, slice := range all {
		m.add(slice)
	}
	return r
}

// maker adds slices to records.
type maker struct {
	*records
	all         bool // also endpoints that are not ready
	seenTargets map[target]bool
	seenAddrs   map[hostAddr]bool
}

func (m *maker) add(slice *discoveryv1.EndpointSlice) {
	var ports []port
	for _, p := range slice.Ports {
		if p.Port == nil {
			continue
		}
		one := port{protocol: protocolOf(p.Protocol), number: uint16(*p.Port)}
		if p.Name != nil {
			one.name = strings.ToLower(*p.Name)
		}
		ports = append(ports, one)
	}
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		if !m.all && e.Conditions.Ready != nil && !*e.Conditions.Ready {
			continue
		}
		for _, text := range e.Addresses {
			a, err := netip.ParseAddr(text)
			if err != nil {
				continue
			}
			a = a.Unmap()
			host := hostLabel(a)
			if e.Hostname != nil && *e.Hostname != "" {
				host = strings.ToLower(*e.Hostname)
			}
			m.addEndpoint(host, a, ports)
		}
	}
}

func (m *maker) addEndpoint(host string, a netip.Addr, ports []port) {
	if m.hosts == nil {
		m.hosts, m.names = map[string][]netip.Addr{}, map[netip.Addr][]string{}
	}
	if !m.seenAddrs[hostAddr{host, a}] {
		m.seenAddrs[hostAddr{host, a}] = true
		m.hosts[host] = append(m.hosts[host], a)
		m.names[a] = append(m.names[a], host)
		if m.headless && !m.seenAddrs[hostAddr{"", a}] {
			m.seenAddrs[hostAddr{"", a}] = true
			m.addrs = append(m.addrs, a)
		}
	}
	for _, p := range ports {
		if t := (target{p, hostAddr{host, a}}); !m.seenTargets[t] {
			m.seenTargets[t] = true
			m.targets = append(m.targets, t)
		}
	}
}

func protocolOf(p *corev1.Protocol) string {
	if p == nil || *p == "" {
		return "tcp"
	}
	return strings.ToLower(string(*p))
}
