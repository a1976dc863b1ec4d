//go:build linux

package overlaytest

import (
	"fmt"
	"os/exec"
	"strings"
)

// Command runs a program in the namespace and returns its output.
func (n *Namespace) Command(name string, args ...string) (string, error) {
	var out []byte
	err := n.Inside(func() (err error) {
		out, err = exec.Command(name, args...).CombinedOutput()
		return err
	})
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// commands runs lines of words in the namespace.
func (n *Namespace) commands(lines ...string) error {
	for _, line := range lines {
		words := strings.Fields(line)
		if _, err := n.Command(words[0], words[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// HandMadeMAC returns the hardware address of the VXLAN device that [Machine.HandMadeVXLAN] makes.
func (m *Machine) HandMadeMAC() [6]byte {
	a := m.Address.As4()
	return [6]byte{0x02, 0x63, a[0], a[1], a[2], a[3]}
}

func (m *Machine) macText() string {
	b := m.HandMadeMAC()
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5])
}

// HandMadeVXLAN makes a VXLAN device of a name, as an administrator would with iproute2: VNI 1, UDP port
// 8472, without learning, over IPv4.
func (m *Machine) HandMadeVXLAN(device string, mtu int) error {
	if err := m.Sysctl("ipv4/ip_forward", "1"); err != nil {
		return err
	}
	if err := m.Sysctl("ipv6/conf/all/forwarding", "1"); err != nil {
		return err
	}
	return m.commands(
		fmt.Sprintf("ip link add %s address %s mtu %d type vxlan id 1 dev %s local %v dstport 8472 nolearning", device, m.macText(), mtu, m.Underlay, m.Address),
		fmt.Sprintf("ip addr add %v/32 dev %s", m.Subnets[0].Addr(), device),
		fmt.Sprintf("ip -6 addr add %v/128 dev %s nodad", m.Subnets[1].Addr(), device),
		fmt.Sprintf("ip link set %s up", device),
	)
}

// HandMadePeer makes the routes, neighbours and FDB entry for a peer whose VXLAN device has a hardware
// address.
func (m *Machine) HandMadePeer(device string, peer *Machine, mac string) error {
	gateway, gateway6 := peer.Subnets[0].Addr(), peer.Subnets[1].Addr()
	return m.commands(
		fmt.Sprintf("bridge fdb add %s dev %s dst %v self permanent", mac, device, peer.Address),
		fmt.Sprintf("ip neigh add %v lladdr %s dev %s nud permanent", gateway, mac, device),
		fmt.Sprintf("ip neigh add %v lladdr %s dev %s nud permanent", gateway6, mac, device),
		fmt.Sprintf("ip route add %v via %v dev %s onlink", peer.Subnets[0], gateway, device),
		fmt.Sprintf("ip -6 route add %v via %v dev %s onlink", peer.Subnets[1], gateway6, device),
	)
}

// HandMadeRoutes makes plain routes to a peer's ranges by its addresses in the underlay.
func (m *Machine) HandMadeRoutes(peer *Machine) error {
	if err := m.Sysctl("ipv4/ip_forward", "1"); err != nil {
		return err
	}
	if err := m.Sysctl("ipv6/conf/all/forwarding", "1"); err != nil {
		return err
	}
	for _, p := range peer.Subnets {
		next := peer.Address
		if p.Addr().Is6() {
			next = peer.Address6
		}
		if err := m.Route(p, next); err != nil {
			return err
		}
	}
	return nil
}
