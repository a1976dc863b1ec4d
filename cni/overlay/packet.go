//go:build linux

package overlay

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// A packet is a checked IP packet.
type packet struct {
	data     []byte // the header and the payload, without what may follow them
	src, dst netip.Addr
	header   int // length of the header in bytes
}

var errPacket = errors.New("malformed packet")

// parsePacket checks the header of an IP packet. The packet shares data.
func parsePacket(data []byte) (packet, error) {
	if len(data) == 0 {
		return packet{}, errPacket
	}
	switch data[0] >> 4 {
	case 4:
		return parse4(data)
	case 6:
		return parse6(data)
	}
	return packet{}, errPacket
}

func parse4(data []byte) (packet, error) {
	if len(data) < 20 {
		return packet{}, errPacket
	}
	header, total := int(data[0]&15)*4, int(binary.BigEndian.Uint16(data[2:]))
	if header < 20 || total < header || total > len(data) {
		return packet{}, errPacket
	}
	return packet{
		data: data[:total], header: header,
		src: netip.AddrFrom4([4]byte(data[12:16])), dst: netip.AddrFrom4([4]byte(data[16:20])),
	}, nil
}

func parse6(data []byte) (packet, error) {
	const header = 40
	if len(data) < header {
		return packet{}, errPacket
	}
	total := header + int(binary.BigEndian.Uint16(data[4:]))
	if total > len(data) {
		return packet{}, errPacket
	}
	return packet{
		data: data[:total], header: header,
		src: netip.AddrFrom16([16]byte(data[8:24])), dst: netip.AddrFrom16([16]byte(data[24:40])),
	}, nil
}

// hop decrements the TTL or hop limit, as each router does, and reports whether the packet may go on.
func (p *packet) hop() bool {
	if p.src.Is6() {
		if p.data[7] <= 1 {
			return false
		}
		p.data[7]--
		return true
	}
	if p.data[8] <= 1 {
		return false
	}
	p.data[8]--
	// RFC 1624: the TTL is the high byte of its word, which shrinks by 0x0100.
	sum := uint32(binary.BigEndian.Uint16(p.data[10:])) + 0x0100
	binary.BigEndian.PutUint16(p.data[10:], uint16(sum+sum>>16))
	return true
}

// Numbers of ICMP (RFC 792) and ICMPv6 (RFC 4443).
const (
	protocolICMP  = 1
	protocolICMP6 = 58
)

// isError reports whether a packet is an ICMP error or a later fragment, about which no ICMP error may
// be sent (RFC 1122).
func (p *packet) isError() bool {
	payload := p.data[p.header:]
	if p.src.Is6() {
		return p.data[6] == protocolICMP6 && (len(payload) == 0 || payload[0] < 128)
	}
	if binary.BigEndian.Uint16(p.data[6:])&0x1fff != 0 {
		return true
	}
	if p.data[9] != protocolICMP {
		return false
	}
	return len(payload) == 0 || payload[0] != 8 && payload[0] != 0 // echo request and reply
}

// timeExceeded returns the ICMP error that tells the sender of p that its TTL ended at from, or nil if
// there must be none.
func (p *packet) timeExceeded(from netip.Addr) []byte {
	if p.isError() || from.Is6() != p.src.Is6() || p.src.IsMulticast() || p.src.IsUnspecified() {
		return nil
	}
	if p.src.Is6() {
		return p.timeExceeded6(from)
	}
	quote := p.data[:min(len(p.data), p.header+8)]
	b := make([]byte, 20+8+len(quote))
	b[0], b[8], b[9] = 0x45, 64, protocolICMP
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	copy(b[12:], from.AsSlice())
	copy(b[16:], p.src.AsSlice())
	binary.BigEndian.PutUint16(b[10:], checksum(0, b[:20]))
	b[20] = 11
	copy(b[28:], quote)
	binary.BigEndian.PutUint16(b[22:], checksum(0, b[20:]))
	return b
}

func (p *packet) timeExceeded6(from netip.Addr) []byte {
	quote := p.data[:min(len(p.data), minMTU6-48)]
	b := make([]byte, 40+8+len(quote))
	b[0], b[6], b[7] = 0x60, protocolICMP6, 64
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
	copy(b[8:], from.AsSlice())
	copy(b[24:], p.src.AsSlice())
	b[40] = 3
	copy(b[48:], quote)
	// The checksum covers a pseudo header: both addresses, the length and the protocol.
	binary.BigEndian.PutUint16(b[42:], checksum(uint32(len(b)-40)+protocolICMP6, b[8:]))
	return b
}

// checksum returns the Internet checksum (RFC 1071) of data, with a sum that precedes it.
func checksum(sum uint32, data []byte) uint16 {
	for ; len(data) >= 2; data = data[2:] {
		sum += uint32(binary.BigEndian.Uint16(data))
	}
	if len(data) == 1 {
		sum += uint32(data[0]) << 8
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
