//go:build linux

package bridge

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// VLANRange is one VLAN, or all from MinID to MaxID.
type VLANRange struct {
	MinID *int `json:"minID,omitempty"`
	MaxID *int `json:"maxID,omitempty"`
	ID    *int `json:"id,omitempty"`
}

// maxVLAN is the highest VLAN: 4095 is reserved.
const maxVLAN = 4094

// trunk returns the VLANs of ranges, sorted, each once.
func trunk(ranges []VLANRange) ([]uint16, error) {
	var all []uint16
	for n, r := range ranges {
		if (r.MinID == nil) != (r.MaxID == nil) {
			return nil, fmt.Errorf("vlanTrunk[%d]: minID and maxID need each other", n)
		}
		if r.MinID == nil && r.ID == nil {
			return nil, fmt.Errorf("vlanTrunk[%d]: no id", n)
		}
		for _, id := range []*int{r.MinID, r.MaxID, r.ID} {
			if id != nil && (*id < 1 || *id > maxVLAN) {
				return nil, fmt.Errorf("vlanTrunk[%d]: %d is not from 1 to %d", n, *id, maxVLAN)
			}
		}
		if r.ID != nil {
			all = append(all, uint16(*r.ID))
		}
		if r.MinID == nil {
			continue
		}
		if *r.MinID > *r.MaxID {
			return nil, fmt.Errorf("vlanTrunk[%d]: minID %d is greater than maxID %d", n, *r.MinID, *r.MaxID)
		}
		for id := *r.MinID; id <= *r.MaxID; id++ {
			all = append(all, uint16(id))
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// hasVLANs reports whether the bridge separates VLANs.
func (c *Conf) hasVLANs() bool { return c.VLAN != 0 || len(c.trunk) > 0 }

// vlanFiltering is the attribute of the bridge; nil leaves it as it is.
func (c *Conf) vlanFiltering() *bool {
	if !c.hasVLANs() {
		return nil
	}
	return new(true)
}

// defaultVLAN is the VLAN in which the kernel puts new ports.
const defaultVLAN = 1

// setVLANs puts a port of the bridge into its VLANs. Without a VLAN of its own, frames without a tag of
// a trunk are in the default one.
func (c *Conf) setVLANs(port netlink.Link, own int, trunk []uint16) error {
	untagged := uint16(own)
	if own == 0 {
		untagged = defaultVLAN
	}
	if untagged != defaultVLAN && !c.PreserveDefaultVLAN {
		if err := netlink.BridgeVlanDel(port, defaultVLAN, true, true, false, true); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("vlan %d of %s: %w", defaultVLAN, port.Attrs().Name, err)
		}
	}
	for _, id := range trunk {
		if id == untagged {
			continue
		}
		if err := netlink.BridgeVlanAdd(port, id, false, false, false, true); err != nil {
			return fmt.Errorf("vlan %d of %s: %w", id, port.Attrs().Name, err)
		}
	}
	if err := netlink.BridgeVlanAdd(port, untagged, true, true, false, true); err != nil {
		return fmt.Errorf("vlan %d of %s: %w", untagged, port.Attrs().Name, err)
	}
	return nil
}

// gatewayLink is the interface with the gateway's address.
func (c *Conf) gatewayLink() string {
	if c.VLAN == 0 {
		return c.Bridge
	}
	return fmt.Sprintf("%s.%d", c.Bridge, c.VLAN)
}

// gateway returns the interface for the gateway's address. For a VLAN it is one end of a pair, whose
// other end is a port of the bridge in the VLAN. The caller holds the lock.
func (c *Conf) gateway(br *netlink.Bridge) (netlink.Link, error) {
	if c.VLAN == 0 {
		return br, nil
	}
	name := c.gatewayLink()
	link, err := netlink.LinkByName(name)
	if err == nil {
		return link, nil
	}
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); !missing {
		return nil, err
	}
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: name}
	veth.Name, veth.MTU = vethName(), c.MTU
	if err := netlink.LinkAdd(veth); err != nil {
		return nil, fmt.Errorf("make %s and %s: %w", veth.Name, name, err)
	}
	if link, err = netlink.LinkByName(name); err == nil {
		err = errors.Join(netlink.LinkSetMaster(veth, br), c.setVLANs(veth, c.VLAN, nil), netlink.LinkSetUp(veth), netlink.LinkSetUp(link))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("gateway %s: %w", name, err), gone(netlink.LinkDel(veth)))
	}
	return link, nil
}

// vlanGateways returns those ports of a bridge whose other end is a gateway of a VLAN.
func vlanGateways(bridge string, ports []netlink.Link) []netlink.Link {
	var all []netlink.Link
	for _, p := range ports {
		if p.Type() != "veth" || p.Attrs().ParentIndex == 0 || p.Attrs().NetNsID >= 0 {
			continue // the other end is in another namespace
		}
		peer, err := netlink.LinkByIndex(p.Attrs().ParentIndex)
		if err == nil && isGatewayOf(bridge, peer.Attrs().Name) {
			all = append(all, p)
		}
	}
	return all
}

// isGatewayOf reports whether a name is that of a gateway of a VLAN.
func isGatewayOf(bridge, name string) bool {
	var id int
	n, err := fmt.Sscanf(name, bridge+".%d", &id)
	return err == nil && n == 1 && name == fmt.Sprintf("%s.%d", bridge, id)
}
