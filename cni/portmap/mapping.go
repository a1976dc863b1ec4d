//go:build linux

package portmap

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/planekit/planekit/cni"
	"golang.org/x/sys/unix"
)

// portMapping is an element of runtimeConfig.portMappings.
type portMapping struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP"`
}

// mapping is a checked portMapping.
type mapping struct {
	protocol                string
	hostPort, containerPort uint16
	// hostIP restricts the mapping to an address of the host. Without one, every address is mapped; an
	// unspecified one stands for every address of its family.
	hostIP netip.Addr
}

// protocols are the protocols with ports, with their numbers.
var protocols = map[string]uint8{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP, "sctp": unix.IPPROTO_SCTP}

// maxMappings bounds one attachment, so that its rules fit into one netlink batch.
const maxMappings = 2000

func parseMappings(list []portMapping) ([]mapping, error) {
	if len(list) > maxMappings {
		return nil, fmt.Errorf("%d port mappings are more than %d", len(list), maxMappings)
	}
	var all []mapping
	for i, p := range list {
		m, err := p.parse()
		if err != nil {
			return nil, fmt.Errorf("portMappings[%d]: %w", i, err)
		}
		all = append(all, m)
	}
	return all, nil
}

func (p portMapping) parse() (mapping, error) {
	m := mapping{protocol: strings.ToLower(p.Protocol)}
	if protocols[m.protocol] == 0 {
		return m, fmt.Errorf("protocol %q is none of tcp, udp, sctp", p.Protocol)
	}
	for _, port := range []struct {
		name string
		from int
		to   *uint16
	}{{"hostPort", p.HostPort, &m.hostPort}, {"containerPort", p.ContainerPort, &m.containerPort}} {
		if port.from < 1 || port.from > 65535 {
			return m, fmt.Errorf("%s %d is not from 1 to 65535", port.name, port.from)
		}
		*port.to = uint16(port.from)
	}
	if p.HostIP == "" {
		return m, nil
	}
	ip, err := netip.ParseAddr(p.HostIP)
	if err != nil || ip.Zone() != "" {
		return m, fmt.Errorf("hostIP %q is not an address", p.HostIP)
	}
	m.hostIP = ip.Unmap()
	return m, nil
}

// mapsTo reports whether the mapping is for containers' addresses of a family.
func (m mapping) mapsTo(v6 bool) bool { return !m.hostIP.IsValid() || m.hostIP.Is6() == v6 }

// containerAddresses returns the first address of each family that the container's interface has.
func containerAddresses(result *cni.Result, ifName string) []netip.Prefix {
	var v4, v6, all []netip.Prefix
	for _, ip := range result.IPs {
		if i := ip.Interface; i != nil && *i >= 0 && *i < len(result.Interfaces) {
			if on := result.Interfaces[*i]; on.Name != ifName || on.Sandbox == "" {
				continue
			}
		}
		switch addr := ip.Address.Addr(); {
		case addr.Is4():
			v4 = append(v4, ip.Address)
		case !addr.Is4In6():
			v6 = append(v6, ip.Address)
		}
	}
	for _, list := range [][]netip.Prefix{v4, v6} {
		if len(list) > 0 {
			all = append(all, list[0])
		}
	}
	return all
}
