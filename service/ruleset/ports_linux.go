package ruleset

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// BridgePorts returns the names of the ports of a bridge in the network namespace of the thread: none if there is no bridge.
func BridgePorts(bridge string) ([]string, error) {
	br, err := netlink.LinkByName(bridge)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bridge %s: %w", bridge, err)
	}
	for attempt := 1; ; attempt++ {
		links, err := netlink.LinkList()
		if errors.Is(err, netlink.ErrDumpInterrupted) && attempt < dumpAttempts {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the ports of %s: %w", bridge, err)
		}
		var ports []string
		for _, l := range links {
			if l.Attrs().MasterIndex == br.Attrs().Index {
				ports = append(ports, l.Attrs().Name)
			}
		}
		return ports, nil
	}
}
