//go:build linux

package overlay

import (
	"net/netip"
	"strings"
	"testing"
)

// TestAdmit checks that members are refused by name and reason, and that the first of two claimants
// keeps what both claim.
func TestAdmit(t *testing.T) {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	for name, test := range map[string]struct {
		change func(m *Member)
		want   string
	}{
		"own name twice":       {func(m *Member) { m.Name = "m001" }, "two members"},
		"long name":            {func(m *Member) { m.Name = strings.Repeat("x", 300) }, "name of 300 bytes"},
		"no subnets":           {func(m *Member) { m.Subnets = nil }, "no subnets"},
		"subnet of the first":  {func(m *Member) { m.Subnets = testMember(1).Subnets }, "overlaps one of m001"},
		"part of a subnet":     {func(m *Member) { m.Subnets[0] = prefix("10.64.1.128/25") }, "overlaps one of m001"},
		"wider than a subnet":  {func(m *Member) { m.Subnets[0] = prefix("10.64.0.0/23") }, "overlaps one of m00"},
		"local subnet":         {func(m *Member) { m.Subnets = testMember(0).Subnets }, "overlaps one of m000"},
		"outside":              {func(m *Member) { m.Subnets[0] = prefix("192.0.2.0/24") }, "outside the network"},
		"everything":           {func(m *Member) { m.Subnets[0] = prefix("0.0.0.0/0") }, "special range"},
		"host bits":            {func(m *Member) { m.Subnets[0] = prefix("10.64.2.1/24") }, "no range"},
		"zero subnet":          {func(m *Member) { m.Subnets[0] = netip.Prefix{} }, "no range"},
		"loopback subnet":      {func(m *Member) { m.Subnets[0] = prefix("127.0.0.0/24") }, "special range"},
		"overlaps itself":      {func(m *Member) { m.Subnets[1] = m.Subnets[0] }, "overlap"},
		"many subnets":         {func(m *Member) { m.Subnets = make([]netip.Prefix, 1000) }, "1000 subnets"},
		"loopback address":     {func(m *Member) { m.Address = addr("127.0.0.1") }, "address 127.0.0.1 is special"},
		"multicast address":    {func(m *Member) { m.Address = addr("224.0.0.1") }, "is special"},
		"broadcast address":    {func(m *Member) { m.Address = addr("255.255.255.255") }, "is special"},
		"link-local address6":  {func(m *Member) { m.Address6 = addr("fe80::1") }, "is special"},
		"wrong family":         {func(m *Member) { m.Address = m.Address6 }, "wrong family"},
		"our address":          {func(m *Member) { m.Address = testMember(0).Address }, "one of this host"},
		"address in subnet":    {func(m *Member) { m.Address = addr("10.64.1.7") }, "in a subnet of m001"},
		"address in own":       {func(m *Member) { m.Address = addr("10.64.2.7") }, "own address"},
		"no backend":           {func(m *Member) { m.Backend = "" }, "not published"},
		"other backend":        {func(m *Member) { m.Backend = UDP }, `"udp", not vxlan`},
		"huge backend":         {func(m *Member) { m.Backend = strings.Repeat("z", 1<<20) }, "not vxlan"},
		"no mac":               {func(m *Member) { m.Data.MAC = MAC{} }, "mac is missing"},
		"group mac":            {func(m *Member) { m.Data.MAC = MAC{1} }, "group address"},
		"mac of the first":     {func(m *Member) { m.Data.MAC = deriveMAC("m001") }, "is that of m001"},
		"local mac":            {func(m *Member) { m.Data.MAC = deriveMAC("m000") }, "is that of m000"},
		"other VNI":            {func(m *Member) { m.Data.VNI = 7 }, "vni 7, not 1"},
		"other port":           {func(m *Member) { m.Data.Port = 7 }, "port 7, not 8472"},
		"no underlay address":  {func(m *Member) { m.Address = netip.Addr{} }, "no address of the family"},
		"zone":                 {func(m *Member) { m.Address6 = addr("2001:db8::1%eth0") }, "wrong family"},
		"mapped subnet":        {func(m *Member) { m.Subnets[0] = netip.PrefixFrom(addr("::ffff:10.64.2.0"), 120) }, "no range"},
		"nothing wrong":        {func(*Member) {}, ""},
		"nothing wrong but v4": {func(m *Member) { m.Subnets = m.Subnets[:1] }, ""},
	} {
		m := newModel(t, 0)
		m.c.Backend, m.c.DirectRouting, m.c.Port = VXLAN, false, DefaultVXLANPort
		first, second := m.published(1), m.published(2)
		test.change(&second)
		admitted, refused := m.c.admit(m.u, []Member{first, m.published(0), second})
		reason := ""
		if err := refused[second.Name]; err != nil {
			reason = err.Error()
		}
		if test.want == "" && len(admitted) == 2 && reason == "" {
			continue
		}
		if test.want == "" || !strings.Contains(reason, test.want) || len(reason) > 200 {
			t.Errorf("%s: refused with %q, want %q", name, reason, test.want)
		}
		if len(admitted) != 1 || admitted[0].Name != "m001" {
			t.Errorf("%s: admitted %v", name, admitted)
		}
	}
}

// TestLaterOwners checks that an earlier member cannot cost a later one its range or its hardware address
// by what it says about itself.
func TestLaterOwners(t *testing.T) {
	for name, change := range map[string]func(thief *Member){
		"address in the range": func(thief *Member) { thief.Address = netip.MustParseAddr("10.64.2.9") },
		"hardware address":     func(thief *Member) { thief.Data.MAC = deriveMAC("m002") },
	} {
		m := newModel(t, 0)
		m.c.Backend, m.c.DirectRouting, m.c.Port = VXLAN, false, DefaultVXLANPort
		thief, owner := m.published(1), m.published(2)
		change(&thief)
		admitted, refused := m.c.admit(m.u, []Member{thief, owner})
		if len(admitted) != 1 || admitted[0].Name != "m002" || refused["m001"] == nil {
			t.Errorf("%s: admitted %v, refused %v", name, admitted, refused)
		}
	}
}

// TestAdmitHostGW checks that members behind a router are refused.
func TestAdmitHostGW(t *testing.T) {
	m := newModel(t, 0)
	m.c.Backend = HostGW
	far, stock := testMember(11), testMember(2)
	_, refused := m.c.admit(m.u, []Member{far, stock})
	if err := refused[far.Name]; err == nil || !strings.Contains(err.Error(), "10.63.1.21 is not on the L2 network of eth0") {
		t.Errorf("refused with %v", err)
	}
	if err := refused[stock.Name]; err != nil {
		t.Errorf("a member that has published nothing is refused: %v", err)
	}
}

// TestAdmitWithoutNetwork checks that no member can take the underlay.
func TestAdmitWithoutNetwork(t *testing.T) {
	m := newModel(t, 0)
	m.c.Backend, m.c.Network = HostGW, nil
	thief := testMember(2)
	thief.Subnets = []netip.Prefix{netip.MustParsePrefix("10.63.0.128/25")}
	_, refused := m.c.admit(m.u, []Member{thief})
	if err := refused[thief.Name]; err == nil || !strings.Contains(err.Error(), "overlaps the underlay") {
		t.Errorf("refused with %v", err)
	}
}

func TestConfigErrors(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"Backend:": func(c *Config) { c.Backend = "ipip" }, "DirectRouting:": func(c *Config) { c.Backend, c.DirectRouting = HostGW, true },
		"Members:": func(c *Config) { c.Members = nil }, "VNI:": func(c *Config) { c.VNI = 1 << 24 }, "Port:": func(c *Config) { c.Port = 1 << 16 },
		"Protocol:": func(c *Config) { c.Protocol = 2 }, "MTU:": func(c *Config) { c.MTU = 100 }, "Resync:": func(c *Config) { c.Resync = -1 },
		"Underlay:":   func(c *Config) { c.Local.Address, c.Local.Address6 = netip.Addr{}, netip.Addr{} },
		"Network[0]:": func(c *Config) { c.Network = []netip.Prefix{{}} }, "Local: no subnets": func(c *Config) { c.Local.Subnets = nil },
		"Local: name": func(c *Config) { c.Local.Name = "" }, "Device:": func(c *Config) { c.Device = "a/b" },
	} {
		c := Config{Local: testMember(0), Members: NewSet()}
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want an error with %q", err, want)
		}
	}
}
