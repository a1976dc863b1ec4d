//go:build linux

package overlay

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

type operation int

const (
	setForward operation = iota
	addDevice
	setDevice
	deleteDevice
	addAddress
	deleteAddress
	setFDB
	deleteFDB
	setNeighbour
	deleteNeighbour
	setRoute
	deleteRoute
)

// A change is one step from the actual to the desired state. Only the fields of its operation are set.
type change struct {
	op      operation
	v6      bool    // of setForward
	name    string  // of devices
	device  *device // of addDevice and setDevice
	address netip.Prefix
	fdb     fdbEntry
	ip      netip.Addr // of neighbours
	mac     MAC
	key     routeKey
	route   route
}

// String describes the change in a log.
func (c change) String() string {
	switch c.op {
	case setForward:
		return fmt.Sprintf("enable forwarding, IPv6 %v", c.v6)
	case addDevice:
		return "add device " + c.name
	case setDevice:
		return "change device " + c.name
	case deleteDevice:
		return "delete device " + c.name
	case addAddress:
		return fmt.Sprintf("add address %v", c.address)
	case deleteAddress:
		return fmt.Sprintf("delete address %v", c.address)
	case setFDB:
		return fmt.Sprintf("set FDB entry of %v to %v", c.fdb.mac, c.fdb.dst)
	case deleteFDB:
		return fmt.Sprintf("delete FDB entry of %v to %v", c.fdb.mac, c.fdb.dst)
	case setNeighbour:
		return fmt.Sprintf("set neighbour %v to %v", c.ip, c.mac)
	case deleteNeighbour:
		return fmt.Sprintf("delete neighbour %v", c.ip)
	case setRoute:
		return fmt.Sprintf("set route to %v via %v on %s", c.key.dst, c.route.via, c.route.dev)
	case deleteRoute:
		return fmt.Sprintf("delete route to %v, metric %d", c.key.dst, c.key.metric)
	}
	return "no change"
}

// diff returns the changes from have to want, in an order in which each is possible and no packet is
// sent wrongly: what a route needs comes before it, and goes after it. Without remove, nothing is
// removed except what prevents an addition. The name is that of the device.
func diff(name string, want, have *state, remove bool) []change {
	var changes []change
	add := func(c change) { changes = append(changes, c) }
	if want.forward4 && !have.forward4 {
		add(change{op: setForward})
	}
	if want.forward6 && !have.forward6 {
		add(change{op: setForward, v6: true})
	}
	if want.device != nil {
		if have.device != nil && !have.device.fits(want.device) {
			add(change{op: deleteDevice, name: name})
			have = have.withoutDevice(name)
		}
		if have.device == nil || have.device.attached != want.device.attached {
			add(change{op: addDevice, name: name, device: want.device})
		} else if have.device.mtu != want.device.mtu || have.device.mac != want.device.mac || !have.device.up {
			add(change{op: setDevice, name: name, device: want.device})
			if !have.device.up || have.device.mac != want.device.mac {
				have = have.withoutRoutes(name) // the kernel may remove them with the change
			}
		}
	}
	changes = append(changes, additions(want, have)...)
	if remove {
		changes = append(changes, removals(want, have)...)
	}
	return changes
}

func additions(want, have *state) []change {
	var changes []change
	for _, p := range chosen(want.addresses, comparePrefixes, func(p netip.Prefix) bool { return !have.addresses[p] }) {
		changes = append(changes, change{op: addAddress, address: p})
	}
	for _, e := range chosen(want.fdb, compareFDB, func(e fdbEntry) bool { return !have.fdb[e] }) {
		changes = append(changes, change{op: setFDB, fdb: e})
	}
	unlike := func(ip netip.Addr) bool {
		mac, ok := have.neighbours[ip]
		return !ok || mac != want.neighbours[ip]
	}
	for _, ip := range chosen(want.neighbours, netip.Addr.Compare, unlike) {
		changes = append(changes, change{op: setNeighbour, ip: ip, mac: want.neighbours[ip]})
	}
	wrong := func(k routeKey) bool {
		r, ok := have.routes[k]
		return !ok || r != want.routes[k]
	}
	for _, k := range chosen(want.routes, compareRoutes, wrong) {
		changes = append(changes, change{op: setRoute, key: k, route: want.routes[k]})
	}
	return changes
}

func removals(want, have *state) []change {
	var changes []change
	left := func(k routeKey) bool {
		_, needed := want.routes[k]
		return !needed && have.routes[k].ours
	}
	for _, k := range chosen(have.routes, compareRoutes, left) {
		changes = append(changes, change{op: deleteRoute, key: k, route: have.routes[k]})
	}
	unknown := func(ip netip.Addr) bool { _, needed := want.neighbours[ip]; return !needed }
	for _, ip := range chosen(have.neighbours, netip.Addr.Compare, unknown) {
		changes = append(changes, change{op: deleteNeighbour, ip: ip, mac: have.neighbours[ip]})
	}
	moved := map[MAC]bool{} // setFDB has replaced their entries
	for e := range want.fdb {
		if !have.fdb[e] {
			moved[e.mac] = true
		}
	}
	for _, e := range chosen(have.fdb, compareFDB, func(e fdbEntry) bool { return !want.fdb[e] && !moved[e.mac] }) {
		changes = append(changes, change{op: deleteFDB, fdb: e})
	}
	for _, p := range chosen(have.addresses, comparePrefixes, func(p netip.Prefix) bool { return !want.addresses[p] }) {
		changes = append(changes, change{op: deleteAddress, address: p})
	}
	for _, name := range chosen(have.stale, cmp.Compare[string], func(string) bool { return true }) {
		changes = append(changes, change{op: deleteDevice, name: name})
	}
	return changes
}

// withoutDevice returns the state after the device is deleted: what is on it goes with it.
func (s *state) withoutDevice(name string) *state {
	rest := s.withoutRoutes(name)
	rest.device, rest.addresses, rest.neighbours, rest.fdb = nil, nil, nil, nil
	return rest
}

// withoutRoutes returns the state without the routes through a device.
func (s *state) withoutRoutes(name string) *state {
	rest := *s
	rest.routes = maps.Clone(s.routes)
	maps.DeleteFunc(rest.routes, func(_ routeKey, r route) bool { return r.dev == name })
	return &rest
}

// chosen returns the keys of a map that choose accepts, in order, so that equal states make equal
// changes.
func chosen[K comparable, V any](m map[K]V, compare func(a, b K) int, choose func(K) bool) []K {
	var keys []K
	for k := range m {
		if choose(k) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compare)
	return keys
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

func compareFDB(a, b fdbEntry) int {
	return cmp.Or(slices.Compare(a.mac[:], b.mac[:]), a.dst.Compare(b.dst))
}

func compareRoutes(a, b routeKey) int {
	return cmp.Or(comparePrefixes(a.dst, b.dst), cmp.Compare(a.metric, b.metric))
}
