package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/planekit/planekit/service/ruleset"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// dumpAttempts bounds the repetitions of a listing that the kernel reports as inconsistent.
const dumpAttempts = 20

// forget removes the kernel's entries of UDP flows that have ended, so that their next packets go to
// an endpoint that there is.
func (p *Proxy) forget(ctx context.Context, ended flows) error {
	if len(ended) == 0 || p.kernel == nil {
		return nil
	}
	has := map[ruleset.Family]bool{}
	for to := range ended {
		if to.Addr().IsValid() {
			has[ruleset.FamilyOf(to.Addr())] = true
		} else {
			has[ruleset.IPv4], has[ruleset.IPv6] = true, true
		}
	}
	for f, number := range map[ruleset.Family]netlink.InetFamily{ruleset.IPv4: unix.AF_INET, ruleset.IPv6: unix.AF_INET6} {
		for attempt := 1; has[f]; attempt++ {
			removed, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, number, ended)
			if errors.Is(err, netlink.ErrDumpInterrupted) && attempt < dumpAttempts && ctx.Err() == nil {
				continue
			}
			if err != nil {
				return fmt.Errorf("remove conntrack entries of UDP services: %w", err)
			}
			p.Meters.forgot(int(removed))
			break
		}
	}
	return nil
}

// MatchConntrackFlow makes flows a filter of netlink.
func (f flows) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	return flow.Forward.Protocol == unix.IPPROTO_UDP &&
		f.ended(addrPort(flow.Forward.DstIP, flow.Forward.DstPort), addrPort(flow.Reverse.SrcIP, flow.Reverse.SrcPort))
}

func addrPort(ip net.IP, port uint16) netip.AddrPort {
	a, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(a.Unmap(), port)
}
