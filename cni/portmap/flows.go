//go:build linux

package portmap

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// forgetFlows removes the host's conntrack entries for mapped UDP ports. New packets of these flows are
// then forwarded by the rules that there are now.
func forgetFlows(ctx context.Context, mappings []mapping) error {
	for _, v6 := range []bool{false, true} {
		filters, err := flowFilters(mappings, v6)
		if err != nil {
			return err
		}
		family := netlink.InetFamily(unix.AF_INET)
		if v6 {
			family = unix.AF_INET6
		}
		if len(filters) == 0 {
			continue
		}
		for attempt := 1; ; attempt++ {
			_, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, filters...)
			if errors.Is(err, netlink.ErrDumpInterrupted) && attempt < dumpAttempts && ctx.Err() == nil {
				continue
			}
			if err != nil {
				return fmt.Errorf("remove conntrack entries of UDP ports: %w", err)
			}
			break
		}
	}
	return nil
}

func flowFilters(mappings []mapping, v6 bool) ([]netlink.CustomConntrackFilter, error) {
	var filters []netlink.CustomConntrackFilter
	for _, m := range mappings {
		if m.protocol != "udp" || !m.mapsTo(v6) {
			continue
		}
		f := new(netlink.ConntrackFilter)
		err := errors.Join(f.AddProtocol(unix.IPPROTO_UDP), f.AddPort(netlink.ConntrackOrigDstPort, m.hostPort))
		if m.hostIP.IsValid() && !m.hostIP.IsUnspecified() {
			err = errors.Join(err, f.AddIP(netlink.ConntrackOrigDstIP, m.hostIP.AsSlice()))
		}
		if err != nil {
			return nil, err
		}
		filters = append(filters, f)
	}
	return filters, nil
}
