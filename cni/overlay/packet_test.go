//go:build linux

package overlay

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"testing"
)

// ping4 returns an ICMP echo request with a valid header.
func ping4(src, dst netip.Addr, ttl byte) []byte {
	b := make([]byte, 28)
	b[0], b[3], b[8], b[9], b[20] = 0x45, 28, ttl, protocolICMP, 8
	copy(b[12:], src.AsSlice())
	copy(b[16:], dst.AsSlice())
	sum := checksum(0, b[:20])
	b[10], b[11] = byte(sum>>8), byte(sum)
	return b
}

func ping6(src, dst netip.Addr, ttl byte) []byte {
	b := make([]byte, 48)
	b[0], b[5], b[6], b[7], b[40] = 0x60, 8, protocolICMP6, ttl, 128
	copy(b[8:], src.AsSlice())
	copy(b[24:], dst.AsSlice())
	return b
}

// udpTable is the table of member 0, whose only peers are 1 and 2.
func udpTable(t testing.TB) *table {
	c := Config{Backend: UDP, Local: testMember(0), Members: NewSet()}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	tunnel := newTunnel(func() {})
	peers := []Member{testMember(1), testMember(2)}
	for i := range peers {
		peers[i].Data.Port = c.Port
	}
	tunnel.setMembers(testUnderlay(), &c, peers)
	return tunnel.table.Load()
}

func TestForwarding(t *testing.T) {
	b := udpTable(t)
	pod := func(n int) netip.Addr { return testMember(n).Subnets[0].Addr().Next() }
	pod6 := func(n int) netip.Addr { return testMember(n).Subnets[1].Addr().Next() }
	for _, data := range [][]byte{ping4(pod(0), pod(1), 64), ping6(pod6(0), pod6(1), 64)} {
		out, to, answer := b.outgoing(bytes.Clone(data))
		if out == nil || answer != nil || to != netip.AddrPortFrom(testMember(1).Address, DefaultUDPPort) {
			t.Errorf("%x, to %v, answer %x", out, to, answer)
		}
		if data[0]>>4 == 4 && (out[8] != 63 || checksum(0, out[:20]) != 0) || data[0]>>4 == 6 && out[7] != 63 {
			t.Errorf("the forwarded packet is %x", out)
		}
	}
	if out, _, answer := b.outgoing(ping4(pod(0), pod(9), 64)); out != nil || answer != nil {
		t.Error("a packet to no member is sent")
	}
	from := func(n int) netip.AddrPort { return netip.AddrPortFrom(testMember(n).Address, DefaultUDPPort) }
	for name, test := range map[string]struct {
		data []byte
		from netip.AddrPort
		want bool
	}{
		"a member":            {ping4(pod(1), pod(0), 9), from(1), true},
		"a member over IPv6":  {ping6(pod6(1), pod6(0), 9), from(1), true},
		"a mapped address":    {ping4(pod(1), pod(0), 9), netip.AddrPortFrom(netip.AddrFrom16(from(1).Addr().As16()), DefaultUDPPort), true},
		"no member":           {ping4(pod(1), pod(0), 9), from(5), false},
		"another port":        {ping4(pod(1), pod(0), 9), netip.AddrPortFrom(from(1).Addr(), 9), false},
		"a source of another": {ping4(pod(2), pod(0), 9), from(1), false},
		"our own source":      {ping4(pod(0), pod(0), 9), from(1), false},
		"not for us":          {ping4(pod(1), pod(2), 9), from(1), false},
		"torn":                {ping4(pod(1), pod(0), 9)[:27], from(1), false},
		"empty":               {nil, from(1), false},
	} {
		if in := b.incoming(test.data, test.from); (in != nil) != test.want {
			t.Errorf("%s: delivered %x", name, in)
		}
	}
}

// TestTimeExceeded checks that a sender learns of the end of a TTL, but not about an error.
func TestTimeExceeded(t *testing.T) {
	b := udpTable(t)
	local, peer := testMember(0).Subnets, testMember(1).Subnets
	_, _, answer := b.outgoing(ping4(local[0].Addr().Next(), peer[0].Addr().Next(), 1))
	p, err := parsePacket(answer)
	if err != nil || p.src != local[0].Addr() || p.dst != local[0].Addr().Next() || answer[20] != 11 || checksum(0, answer[20:]) != 0 {
		t.Errorf("the answer is %x, %v", answer, err)
	}
	if !p.isError() {
		t.Error("the answer is not known as an error")
	}
	_, _, answer = b.outgoing(ping6(local[1].Addr().Next(), peer[1].Addr().Next(), 1))
	if p, err = parsePacket(answer); err != nil || p.src != local[1].Addr() || answer[40] != 3 || !p.isError() {
		t.Errorf("the answer is %x, %v", answer, err)
	}
	if checksum(uint32(len(answer)-40)+protocolICMP6, answer[8:]) != 0 {
		t.Error("wrong checksum")
	}
	failure := ping4(local[0].Addr().Next(), peer[0].Addr().Next(), 1)
	failure[20] = 3
	if out, _, answer := b.outgoing(failure); out != nil || answer != nil {
		t.Error("an ICMP error was answered")
	}
}

// FuzzFrames checks that no datagram makes the forwarder fail, or deliver a packet that is not from the
// member's range to a local one.
func FuzzFrames(f *testing.F) {
	a, b := testMember(0), testMember(1)
	f.Add(ping4(b.Subnets[0].Addr().Next(), a.Subnets[0].Addr().Next(), 1))
	f.Add(ping4(a.Subnets[0].Addr().Next(), b.Subnets[0].Addr().Next(), 1))
	f.Add(ping6(b.Subnets[1].Addr().Next(), a.Subnets[1].Addr().Next(), 1))
	f.Add(ping6(a.Subnets[1].Addr().Next(), b.Subnets[1].Addr().Next(), 1))
	f.Add([]byte{0x4f, 0, 0, 61})
	members := udpTable(f)
	from := netip.AddrPortFrom(b.Address, DefaultUDPPort)
	contains := func(m Member, a netip.Addr) bool { return m.Subnets[0].Contains(a) || m.Subnets[1].Contains(a) }
	f.Fuzz(func(t *testing.T, data []byte) {
		if in := members.incoming(data, from); in != nil {
			p, err := parsePacket(in)
			if err != nil || !contains(b, p.src) || !contains(a, p.dst) {
				t.Errorf("delivered %x", in)
			}
		}
		out, to, answer := members.outgoing(bytes.Clone(data))
		if out != nil && (answer != nil || to.Port() != DefaultUDPPort) {
			t.Errorf("sent %x to %v, answered %x", out, to, answer)
		}
		if answer != nil {
			if p, err := parsePacket(answer); err != nil || !p.isError() || !contains(a, p.src) {
				t.Errorf("answered %x: %v", answer, err)
			}
		}
	})
}

// FuzzData checks that backend data is refused or is valid, and that its JSON form is read back alike.
func FuzzData(f *testing.F) {
	f.Add([]byte(`{"mac":"02:00:00:00:00:01","vni":1,"port":8472}`))
	f.Add([]byte(`{"mac":"01:00:00:00:00:01"}`))
	f.Add([]byte(`{"mac":null,"vni":-1}`))
	f.Add([]byte(`[]`))
	f.Add([]byte(`{} {}`))
	f.Add([]byte(`{"port":1e99}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := ParseData(text)
		if err != nil {
			if len(err.Error()) > 2*MaxData {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if d.VNI < 0 || d.VNI > maxVNI || d.Port < 0 || d.Port > maxPort || d.MAC[0]&1 != 0 {
			t.Errorf("%q is accepted as %+v", text, d)
		}
		again, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseData(again); err != nil || back != d {
			t.Errorf("%s is read as %+v, %v", again, back, err)
		}
	})
}
