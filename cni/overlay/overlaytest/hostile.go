//go:build linux

package overlaytest

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Datagram returns an IP packet with a UDP datagram, whose addresses need not be the sender's.
func Datagram(from, to netip.AddrPort, payload []byte) []byte {
	udp := binary.BigEndian.AppendUint16(nil, from.Port())
	udp = binary.BigEndian.AppendUint16(udp, to.Port())
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(payload)))
	udp = append(append(udp, 0, 0), payload...)
	sum := checksum(uint32(len(udp))+unix.IPPROTO_UDP, from.Addr().AsSlice(), to.Addr().AsSlice(), udp)
	binary.BigEndian.PutUint16(udp[6:], max(sum, 1)) // zero is none
	return packet(from.Addr(), to.Addr(), unix.IPPROTO_UDP, udp)
}

// packet returns an IP packet.
func packet(from, to netip.Addr, protocol byte, payload []byte) []byte {
	if from.Is6() {
		p := []byte{0x60, 0, 0, 0, 0, 0, protocol, 64}
		binary.BigEndian.PutUint16(p[4:], uint16(len(payload)))
		return append(append(append(p, from.AsSlice()...), to.AsSlice()...), payload...)
	}
	p := make([]byte, 20, 20+len(payload))
	p[0], p[8], p[9] = 0x45, 64, protocol
	binary.BigEndian.PutUint16(p[2:], uint16(20+len(payload)))
	copy(p[12:], from.AsSlice())
	copy(p[16:], to.AsSlice())
	binary.BigEndian.PutUint16(p[10:], checksum(0, p))
	return append(p, payload...)
}

// checksum returns the Internet checksum of parts of even length, but for the last one.
func checksum(sum uint32, parts ...[]byte) uint16 {
	for _, data := range parts {
		for i, b := range data {
			if i%2 == 0 {
				sum += uint32(b) << 8
			} else {
				sum += uint32(b)
			}
		}
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// VXLANFrame returns the payload of a VXLAN datagram: an IP packet in a frame to a hardware address.
func VXLANFrame(vni int, to []byte, ip []byte) []byte {
	frame := []byte{8, 0, 0, 0, byte(vni >> 16), byte(vni >> 8), byte(vni), 0}
	frame = append(append(frame, to...), 2, 0, 0, 0, 0, 0x66)
	if ip[0]>>4 == 6 {
		frame = append(frame, 0x86, 0xdd)
	} else {
		frame = append(frame, 8, 0)
	}
	return append(frame, ip...)
}

// Fragments divides the IP packet of a UDP datagram in the ways that could hide its port: the UDP header
// alone; a header that another fragment replaces; and, with IPv6, the UDP header behind the first fragment.
func Fragments(p []byte) [][]byte {
	const first = 8 // a fragment's least size in bytes, and that of a UDP header
	header := 20
	if p[0]>>4 == 6 {
		header = 40
	}
	udp := p[header:]
	other := append([]byte{0, 9, 0, 9}, udp[4:2*first]...)
	id := byte(checksum(0, p)) // another one for the next packet
	all := [][]byte{
		fragment(p, id, unix.IPPROTO_UDP, 0, true, udp[:first]), fragment(p, id, unix.IPPROTO_UDP, first, false, udp[first:]),
		fragment(p, id+1, unix.IPPROTO_UDP, 0, true, other), fragment(p, id+1, unix.IPPROTO_UDP, 0, true, udp[:first]),
		fragment(p, id+1, unix.IPPROTO_UDP, first, false, udp[first:]),
	}
	if header == 40 {
		options := []byte{unix.IPPROTO_UDP, 0, 1, 4, 0, 0, 0, 0} // padding
		all = append(all, fragment(p, id+2, unix.IPPROTO_DSTOPTS, 0, true, options), fragment(p, id+2, unix.IPPROTO_DSTOPTS, first, false, udp))
	}
	return all
}

// fragment returns a fragment of the packet p with data.
func fragment(p []byte, id, protocol byte, offset int, more bool, data []byte) []byte {
	if p[0]>>4 == 6 {
		from, _ := netip.AddrFromSlice(p[8:24])
		to, _ := netip.AddrFromSlice(p[24:40])
		header := []byte{protocol, 0, 0, byte(offset), 0, 0, 0, id}
		if more {
			header[3] |= 1
		}
		return packet(from, to, unix.IPPROTO_FRAGMENT, append(header, data...))
	}
	from, _ := netip.AddrFromSlice(p[12:16])
	to, _ := netip.AddrFromSlice(p[16:20])
	f := packet(from, to, protocol, data)
	f[5], f[7] = id, byte(offset/8)
	if more {
		f[6] = 0x20
	}
	f[10], f[11] = 0, 0
	binary.BigEndian.PutUint16(f[10:], checksum(0, f[:20]))
	return f
}

// Send sends IP packets from the namespace as they are.
func (n *Namespace) Send(packets ...[]byte) error {
	return n.Inside(func() error {
		for _, p := range packets {
			if err := send(p); err != nil {
				return err
			}
		}
		return nil
	})
}

func send(p []byte) error {
	family := unix.AF_INET
	var to unix.Sockaddr
	if p[0]>>4 == 6 {
		family, to = unix.AF_INET6, &unix.SockaddrInet6{Addr: [16]byte(p[24:40])}
	} else {
		to = &unix.SockaddrInet4{Addr: [4]byte(p[16:20])}
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, p, 0, to)
}
