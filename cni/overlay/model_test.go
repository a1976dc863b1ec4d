//go:build linux

package overlay

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

const deviceName = "pkvx.1"

// memKernel is a kernel in memory: changes have the effects that they have on Linux.
type memKernel struct {
	state
	tb testing.TB
}

func (k *memKernel) apply(c change) {
	k.tb.Helper()
	onDevice := c.op == setDevice || c.op >= addAddress && c.op <= deleteNeighbour || c.op == setRoute && c.route.dev == deviceName
	if onDevice && (k.device == nil || !k.device.up && c.op != setDevice) {
		k.tb.Fatalf("%v: no device, or it is down", c)
	}
	switch c.op {
	case setForward:
		k.forward4, k.forward6 = k.forward4 || !c.v6, k.forward6 || c.v6
	case addDevice:
		if k.device != nil && k.device.attached {
			k.tb.Fatalf("%v: it exists", c)
		}
		d := *c.device
		k.device = &d
	case setDevice:
		d := *c.device
		k.device = &d
	case deleteDevice:
		k.delete(c.name)
	case addAddress:
		k.addresses[c.address] = true
	case deleteAddress:
		delete(k.addresses, c.address)
	case setFDB:
		maps.DeleteFunc(k.fdb, func(e fdbEntry, _ bool) bool { return e.mac == c.fdb.mac })
		k.fdb[c.fdb] = true
	case deleteFDB:
		delete(k.fdb, c.fdb)
	case setNeighbour:
		k.neighbours[c.ip] = c.mac
	case deleteNeighbour:
		delete(k.neighbours, c.ip)
	case setRoute:
		k.routes[c.key] = c.route
	case deleteRoute:
		if !k.routes[c.key].ours {
			k.tb.Fatalf("%v: it is of another program", c)
		}
		delete(k.routes, c.key)
	}
}

func (k *memKernel) delete(name string) {
	if name != deviceName {
		delete(k.stale, name)
		return
	}
	k.state = *k.withoutDevice(name)
	k.addresses, k.neighbours, k.fdb = map[netip.Prefix]bool{}, map[netip.Addr]MAC{}, map[fdbEntry]bool{}
}

// read returns a copy of what the overlay can see.
func (k *memKernel) read(want *state) *state {
	s := k.state
	s.addresses, s.neighbours, s.fdb, s.stale = maps.Clone(k.addresses), maps.Clone(k.neighbours), maps.Clone(k.fdb), maps.Clone(k.stale)
	s.routes = maps.Clone(k.routes)
	maps.DeleteFunc(s.routes, func(key routeKey, r route) bool {
		_, needed := want.routes[key]
		return !r.ours && !needed
	})
	return &s
}

// model is a random history of members and drift.
type model struct {
	*testing.T
	*rand.Rand
	c       *Config
	u       *underlay
	members []Member
	kernel  *memKernel
}

func newModel(t *testing.T, seed uint64) *model {
	r := rand.New(rand.NewPCG(seed, 16))
	local := testMember(0)
	c := &Config{
		Backend: []string{VXLAN, HostGW, UDP}[r.IntN(3)], Local: local, Device: deviceName, Members: NewSet(),
		Network: []netip.Prefix{netip.MustParsePrefix("10.64.0.0/16"), netip.MustParsePrefix("fd63:64::/32")},
	}
	c.DirectRouting = c.Backend == VXLAN && r.IntN(2) == 0
	if r.IntN(3) == 0 {
		c.Local.Subnets = c.Local.Subnets[:1]
	}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	return &model{T: t, Rand: r, c: c, u: testUnderlay(), kernel: &memKernel{state: *newState(), tb: t}}
}

// testUnderlay has an L2 network of the members 0-9.
func testUnderlay() *underlay {
	a := testMember(0)
	return &underlay{
		name: "eth0", index: 2, mtu: 1500, address: a.Address, address4: a.Address, address6: a.Address6,
		prefixes: []netip.Prefix{netip.PrefixFrom(a.Address, 24), netip.PrefixFrom(a.Address6, 64)},
	}
}

func testMember(n int) Member {
	network := n / 10
	return Member{
		Name:     fmt.Sprintf("m%03d", n),
		Address:  netip.AddrFrom4([4]byte{10, 63, byte(network), byte(10 + n)}),
		Address6: netip.MustParseAddr(fmt.Sprintf("fd63:0:0:%x::%x", network, 10+n)),
		Subnets: []netip.Prefix{
			netip.MustParsePrefix(fmt.Sprintf("10.64.%d.0/24", n)), netip.MustParsePrefix(fmt.Sprintf("fd63:64:%x::/64", n)),
		},
	}
}

// published returns a member as its own overlay would publish it.
func (m *model) published(n int) Member {
	member := testMember(n)
	member.Backend = m.c.Backend
	switch m.c.Backend {
	case VXLAN:
		member.Data = Data{MAC: deriveMAC(member.Name), VNI: m.c.VNI, Port: m.c.Port}
	case UDP:
		member.Data = Data{Port: m.c.Port}
	}
	return member
}

// changeMembers adds, removes or changes a member.
func (m *model) changeMembers() {
	n := 1 + m.IntN(29)
	name := testMember(n).Name
	m.members = slices.DeleteFunc(m.members, func(o Member) bool { return o.Name == name })
	if m.IntN(3) == 0 {
		return
	}
	member := m.published(n)
	switch m.IntN(6) {
	case 0:
		member.Data.MAC = MAC{2, 0, 0, 0, byte(m.IntN(3)), 1}
	case 1:
		member.Subnets = testMember(1 + m.IntN(29)).Subnets
	case 2:
		member.Address = testMember(1 + m.IntN(29)).Address
	case 3:
		member.Subnets = member.Subnets[m.IntN(2):][:1]
	}
	m.members = append(m.members, member)
}

// drift changes the kernel as a person or another program might.
func (m *model) drift() {
	k := m.kernel
	switch m.IntN(10) {
	case 0:
		k.delete(deviceName)
	case 1:
		if k.device != nil {
			d := *k.device
			d.mtu, d.up = d.mtu-m.IntN(2), m.IntN(2) == 0
			k.device = &d
			if !d.up {
				k.state = *k.withoutRoutes(deviceName)
			}
		}
	case 2:
		if k.device != nil {
			d := *k.device
			d.vni, d.unlike = d.vni+m.IntN(2), m.IntN(2) == 0
			k.device = &d
		}
	case 3:
		if k.device != nil {
			d := *k.device
			d.mac, d.attached = MAC{2, 2, 2}, false
			k.device = &d
		}
	case 4:
		k.forward4, k.forward6 = false, false
	case 5:
		k.stale["pktun0"] = true
	default:
		m.driftEntries()
	}
}

func (m *model) driftEntries() {
	k := m.kernel
	p := testMember(1 + m.IntN(40)).Subnets[m.IntN(2)]
	if k.device != nil && k.device.up {
		mac := deriveMAC(testMember(1 + m.IntN(40)).Name)
		switch m.IntN(3) {
		case 0:
			k.neighbours[p.Addr()] = MAC{2, 9}
			maps.DeleteFunc(k.neighbours, func(netip.Addr, MAC) bool { return m.IntN(4) == 0 })
		case 1:
			maps.DeleteFunc(k.fdb, func(e fdbEntry, _ bool) bool { return e.mac == mac || m.IntN(4) == 0 })
			k.fdb[fdbEntry{mac, netip.MustParseAddr("10.63.0.99")}] = true
		case 2:
			k.addresses[p] = true
			maps.DeleteFunc(k.addresses, func(netip.Prefix, bool) bool { return m.IntN(4) == 0 })
		}
	}
	switch m.IntN(3) {
	case 0:
		maps.DeleteFunc(k.routes, func(routeKey, route) bool { return m.IntN(4) == 0 })
	case 1:
		k.routes[keyOf(p)] = route{dev: "eth0", via: netip.MustParseAddr("10.63.0.77"), ours: m.IntN(2) == 0}
	case 2:
		k.routes[routeKey{p, 50}] = route{dev: "eth0", unlike: true}
	}
}

// converge applies changes until there are none, and checks the result.
func (m *model) converge() *state {
	m.Helper()
	want, _, err := m.c.desired(m.u, m.members)
	if err != nil {
		m.Fatal(err)
	}
	foreign := maps.Clone(m.kernel.routes)
	maps.DeleteFunc(foreign, func(key routeKey, r route) bool { return r.ours || r.dev == deviceName || has(want.routes, key) })
	for range rounds {
		changes := diff(m.c.Device, want, m.kernel.read(want), true)
		if len(changes) == 0 {
			m.check(want, foreign)
			return want
		}
		for _, c := range changes {
			m.kernel.apply(c)
		}
	}
	m.Fatal("no convergence")
	return nil
}

func has[K comparable, V any](m map[K]V, k K) bool { _, ok := m[k]; return ok }

func (m *model) check(want *state, foreign map[routeKey]route) {
	m.Helper()
	have := m.kernel
	if d := want.device; d != nil && (have.device == nil || *have.device != *d) {
		m.Fatalf("device %+v, want %+v", have.device, d)
	}
	if want.device != nil && (!maps.Equal(have.addresses, want.addresses) || !maps.Equal(have.neighbours, want.neighbours) || !maps.Equal(have.fdb, want.fdb)) {
		m.Fatalf("on the device: %v %v %v\nwant %v %v %v", have.addresses, have.neighbours, have.fdb, want.addresses, want.neighbours, want.fdb)
	}
	for key, r := range want.routes {
		if have.routes[key] != r {
			m.Fatalf("route %v: %+v, want %+v", key, have.routes[key], r)
		}
	}
	for key, r := range have.routes {
		if r.ours && !has(want.routes, key) {
			m.Fatalf("route %v remains", key)
		}
	}
	for key, r := range foreign {
		if have.routes[key] != r {
			m.Fatalf("the route %v of another program is changed", key)
		}
	}
	if len(have.stale) > 0 {
		m.Fatalf("devices %v remain", have.stale)
	}
}

// TestModel checks with random histories that the kernel always converges to the desired state, that
// routes of other programs stay, and that a change of members changes nothing of the other members.
func TestModel(t *testing.T) {
	for seed := range uint64(30) {
		m := newModel(t, seed)
		for step := range 60 {
			if m.IntN(2) == 0 {
				m.drift()
				m.converge()
				continue
			}
			before := m.converge()
			m.changeMembers()
			after, _, err := m.c.desired(m.u, m.members)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range diff(m.c.Device, after, m.kernel.read(after), true) {
				if c.op == setRoute && before.routes[c.key] == after.routes[c.key] {
					t.Fatalf("seed %d, step %d: %v, of a member that has not changed", seed, step, c)
				}
				if c.op == addDevice || c.op == deleteDevice || c.op == setDevice {
					t.Fatalf("seed %d, step %d: %v", seed, step, c)
				}
			}
			m.converge()
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestStartKeepsRoutes checks that nothing is removed before the members are known.
func TestStartKeepsRoutes(t *testing.T) {
	for seed := range uint64(20) {
		m := newModel(t, seed)
		for n := range 9 {
			m.members = append(m.members, m.published(n+1))
		}
		m.converge()
		empty, _, err := m.c.desired(m.u, nil)
		if err != nil {
			t.Fatal(err)
		}
		if changes := diff(m.c.Device, empty, m.kernel.read(empty), false); len(changes) > 0 {
			t.Fatalf("seed %d: %v", seed, changes)
		}
		removals := diff(m.c.Device, empty, m.kernel.read(empty), true)
		if len(removals) < 9 {
			t.Fatalf("seed %d: removals %v", seed, removals)
		}
	}
}

func TestSetFollow(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := NewSet(testMember(1))
	seen := make(chan int, 10) // one for each change below
	done := make(chan error, 1)
	go func() { done <- s.Follow(ctx, func(all []Member) { seen <- len(all) }) }()
	if n := <-seen; n != 1 {
		t.Errorf("%d members", n)
	}
	if err := s.Put(ctx, testMember(2)); err != nil {
		t.Error(err)
	}
	for n := range seen {
		if n == 2 {
			break
		}
	}
	s.Delete(testMember(1).Name)
	for n := range seen {
		if n == 1 {
			break
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
