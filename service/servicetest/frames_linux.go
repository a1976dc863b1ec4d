package servicetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Frame describes a frame that a host sends on its link, with any header.
type Frame struct {
	Type    uint16 // of the frame, such as 0x0800
	To      net.HardwareAddr
	Payload []byte
}

// link returns the host's end of its link.
func (h *Host) link() (attrs *netlink.LinkAttrs, linkLocal netip.Addr) {
	h.t.Helper()
	h.Inside(func() error {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		attrs = l.Attrs()
		all, err := netlink.AddrList(l, netlink.FAMILY_V6)
		for _, a := range all {
			if a.IP.IsLinkLocalUnicast() {
				linkLocal, _ = netip.AddrFromSlice(a.IP)
			}
		}
		return err
	})
	return attrs, linkLocal
}

// MAC returns the hardware address of the host.
func (h *Host) MAC() net.HardwareAddr {
	attrs, _ := h.link()
	return attrs.HardwareAddr
}

// LinkLocal returns the link-local address of the host.
func (h *Host) LinkLocal() netip.Addr {
	_, a := h.link()
	return a
}

func hostOrder(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

// Send sends a frame past the host's own network.
func (h *Host) Send(f Frame) {
	h.t.Helper()
	attrs, _ := h.link()
	h.Inside(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		frame := append(append(append([]byte{}, f.To...), attrs.HardwareAddr...), byte(f.Type>>8), byte(f.Type))
		to := &unix.SockaddrLinklayer{Ifindex: attrs.Index, Halen: 6}
		copy(to.Addr[:], f.To)
		return unix.Sendto(fd, append(frame, f.Payload...), 0, to)
	})
}

// Listener has what came to a host.
type Listener struct {
	mu   sync.Mutex
	have [][]byte
}

// Has reports whether a frame came that contains some bytes.
func (l *Listener) Has(mark string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.have {
		if bytes.Contains(f, []byte(mark)) {
			return true
		}
	}
	return false
}

// Listen records all frames that come to a host, until the test ends.
func (h *Host) Listen() *Listener {
	h.t.Helper()
	attrs, _ := h.link()
	l := &Listener{}
	var fd int
	h.Inside(func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(hostOrder(unix.ETH_P_ALL))); err != nil {
			return err
		}
		// The end of the test is noticed between two frames.
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20_000}); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: hostOrder(unix.ETH_P_ALL), Ifindex: attrs.Index})
	})
	stop, ended := make(chan struct{}), make(chan struct{})
	h.t.Cleanup(func() { close(stop); <-ended; unix.Close(fd) })
	go func() {
		defer close(ended)
		buffer := make([]byte, 1<<16)
		for {
			select {
			case <-stop:
				return
			default:
			}
			n, from, err := unix.Recvfrom(fd, buffer, 0)
			if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				return
			}
			if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING {
				continue
			}
			l.mu.Lock()
			l.have = append(l.have, bytes.Clone(buffer[:n]))
			l.mu.Unlock()
		}
	}()
	return l
}

// checksum returns the checksum of the Internet of some bytes.
func checksum(parts ...[]byte) uint16 {
	var sum uint32
	all := bytes.Join(parts, nil)
	for i := 0; i < len(all); i += 2 {
		sum += uint32(all[i]) << 8
		if i+1 < len(all) {
			sum += uint32(all[i+1])
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// IPv4 returns a packet. fragment is the field of flags and offset: 0x2000 says that more follow.
func IPv4(from, to netip.Addr, protocol byte, fragment uint16, payload []byte) []byte {
	b := []byte{0x45, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(20+len(payload)))
	b = append(b, 0x65, 0x65, byte(fragment>>8), byte(fragment), 64, protocol, 0, 0)
	b = append(append(b, from.AsSlice()...), to.AsSlice()...)
	binary.BigEndian.PutUint16(b[10:], checksum(b))
	return append(b, payload...)
}

// IPv6 returns a packet whose payload begins with the header called next.
func IPv6(from, to netip.Addr, next byte, hops byte, payload []byte) []byte {
	b := []byte{0x60, 0, 0, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
	b = append(b, next, hops)
	return append(append(append(b, from.AsSlice()...), to.AsSlice()...), payload...)
}

// Checked sets the checksum at an offset of a transport header that follows an IP header with those addresses.
func Checked(from, to netip.Addr, protocol byte, at int, b []byte) []byte {
	pseudo := append(from.AsSlice(), to.AsSlice()...)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(b)))
	pseudo = append(pseudo, 0, 0, 0, protocol)
	b = bytes.Clone(b)
	binary.BigEndian.PutUint16(b[at:], checksum(pseudo, b))
	return b
}

// UDP returns a datagram to a port, and SYN the first segment of a connection, without checksums.
func UDP(port uint16, payload string) []byte {
	b := []byte{0x9c, 0x40, byte(port >> 8), byte(port)}
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	return append(append(b, 0, 0), payload...)
}

// SYN returns the first segment of a connection, with data and without a checksum.
func SYN(port uint16, payload string) []byte {
	b := []byte{0x9c, 0x41, byte(port >> 8), byte(port), 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0x20, 0, 0, 0, 0, 0}
	return append(b, payload...)
}
