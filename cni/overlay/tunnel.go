//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A tunnel forwards packets between a tun device and the members, each packet in one UDP datagram. Its
// queues are those of the device and the socket, which the kernel bounds: what comes faster than it
// can be forwarded is dropped there.
type tunnel struct {
	// lost is called when the device or the socket is gone.
	lost  func()
	table atomic.Pointer[table]
	wait  sync.WaitGroup

	mu      sync.Mutex
	tun     *os.File       // guarded by mu, as all below
	index   int            // of the device
	conn    *net.UDPConn   // with the address
	address netip.AddrPort // in the underlay
}

// table holds what the tunnel knows about members. It is immutable.
type table struct {
	// owners finds the member of an address in the overlay.
	owners prefixes
	// addresses has the members' addresses in the underlay, names the opposite.
	addresses map[string]netip.AddrPort
	names     map[netip.AddrPort]map[string]bool
	// local is the name of the local member, gateways its addresses in the overlay.
	local    string
	gateways []netip.Addr
}

func newTunnel(lost func()) *tunnel {
	t := &tunnel{lost: lost}
	t.table.Store(&table{})
	return t
}

// setMembers replaces the table.
func (t *tunnel) setMembers(u *underlay, c *Config, members []Member) {
	b := &table{
		addresses: make(map[string]netip.AddrPort, len(members)), names: make(map[netip.AddrPort]map[string]bool, len(members)),
		local: c.Local.Name, gateways: gateways(&c.Local),
	}
	for _, p := range c.Local.Subnets {
		b.owners.add(p, c.Local.Name)
	}
	for i := range members {
		m := &members[i]
		for _, p := range m.Subnets {
			b.owners.add(p, m.Name)
		}
		at := netip.AddrPortFrom(m.underlay(u.v6()), uint16(m.Data.Port))
		b.addresses[m.Name] = at
		if b.names[at] == nil {
			b.names[at] = map[string]bool{}
		}
		b.names[at][m.Name] = true
	}
	t.table.Store(b)
}

// open makes the device, or attaches to it if another process has left it, and starts to forward its
// packets. It must be called in the namespace of the device.
func (t *tunnel) open(name string) error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/dev/net/tun", Err: err}
	}
	index, err := attach(fd, name)
	if err != nil {
		unix.Close(fd)
		return fmt.Errorf("tun device %s: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), "/dev/net/tun")
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tun != nil {
		t.tun.Close()
	}
	t.tun, t.index = file, index
	t.wait.Go(func() { t.fromDevice(file) })
	return nil
}

// attach makes fd the queue of a device that stays when fd is closed, and returns the device's index.
func attach(fd int, name string) (int, error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return 0, err
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1); err != nil {
		return 0, err
	}
	link, err := net.InterfaceByName(name)
	if err != nil {
		return 0, err
	}
	return link.Index, nil
}

// listen opens the socket at an address unless it is open. It must be called in the namespace of the
// underlay.
func (t *tunnel) listen(a netip.Addr, port int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	address := netip.AddrPortFrom(a, uint16(port))
	if t.conn != nil && t.address == address {
		return nil
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(address))
	if err != nil {
		return err
	}
	if err := allowFragments(conn, a.Is6()); err != nil {
		conn.Close()
		return err
	}
	if t.conn != nil {
		t.conn.Close()
	}
	t.conn, t.address = conn, address
	t.wait.Go(func() { t.fromMembers(conn) })
	return nil
}

// allowFragments lets routers split datagrams, because the MTU of a path may be less than that of the
// underlay's interface.
func allowFragments(conn *net.UDPConn, v6 bool) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
		if v6 {
			set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DONT)
		}
	})
	return errors.Join(err, set)
}

// attached reports whether the tunnel forwards the packets of the device with the index.
func (t *tunnel) attached(index int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tun != nil && t.index == index
}

// close ends forwarding and waits for it. The device stays.
func (t *tunnel) close() {
	t.mu.Lock()
	if t.tun != nil {
		t.tun.Close()
	}
	if t.conn != nil {
		t.conn.Close()
	}
	t.tun, t.conn = nil, nil
	t.mu.Unlock()
	t.wait.Wait()
}

// socket returns the socket, or nil.
func (t *tunnel) socket() *net.UDPConn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conn
}

func (t *tunnel) device() *os.File {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tun
}

// fromDevice sends the packets of the device to members until the device is gone.
func (t *tunnel) fromDevice(tun *os.File) {
	buffer := make([]byte, maxMTU)
	for {
		n, err := tun.Read(buffer)
		if err != nil {
			break
		}
		out, to, answer := t.table.Load().outgoing(buffer[:n])
		if answer != nil {
			_, _ = tun.Write(answer) // like every packet, an ICMP error may be lost
		}
		if conn := t.socket(); out != nil && conn != nil {
			_, _ = conn.WriteToUDPAddrPort(out, to)
		}
	}
	t.mu.Lock()
	if t.tun == tun {
		tun.Close()
		t.tun = nil
	}
	t.mu.Unlock()
	t.lost()
}

// fromMembers gives the packets of members to the device until the socket is closed.
func (t *tunnel) fromMembers(conn *net.UDPConn) {
	buffer := make([]byte, maxMTU)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error about an earlier datagram
		}
		in := t.table.Load().incoming(buffer[:n], from)
		if tun := t.device(); in != nil && tun != nil {
			_, _ = tun.Write(in)
		}
	}
}

// outgoing returns the packet to send to a member, or an answer for its sender, or neither.
func (b *table) outgoing(data []byte) (out []byte, to netip.AddrPort, answer []byte) {
	p, err := parsePacket(data)
	if err != nil {
		return nil, to, nil
	}
	owner, _ := b.owners.lookup(p.dst)
	to, ok := b.addresses[owner]
	if !ok {
		return nil, to, nil
	}
	if !p.hop() {
		for _, g := range b.gateways {
			if g.Is6() == p.src.Is6() {
				answer = p.timeExceeded(g)
			}
		}
		return nil, to, answer
	}
	return p.data, to, nil
}

// incoming returns the packet in a datagram if it may be delivered: the datagram is from a member, the
// packet's source is in a range of that member, and its destination is local, so that no packet can go
// round in circles.
func (b *table) incoming(data []byte, from netip.AddrPort) []byte {
	members := b.names[netip.AddrPortFrom(from.Addr().Unmap(), from.Port())]
	if members == nil {
		return nil
	}
	p, err := parsePacket(data)
	if err != nil {
		return nil
	}
	if owner, ok := b.owners.lookup(p.src); !ok || !members[owner] {
		return nil
	}
	if owner, ok := b.owners.lookup(p.dst); !ok || owner != b.local {
		return nil
	}
	return p.data
}
