package machine

import (
	"fmt"
	"net/netip"
)

// Taken is a range of addresses that something on the machine has.
type Taken struct {
	Prefix netip.Prefix
	// Address is set where a link has it, which is within Prefix. Not set for routes
	// and claims.
	Address netip.Addr
	// By names what has the range, such as "link eth0 (address 10.0.0.7/24)".
	By string
}

// blocks reports whether pods in the range would not be reached. A route to a
// larger network does no harm: the one to the pods is more specific.
func (t Taken) blocks(pods netip.Prefix) bool {
	if t.Address.IsValid() && pods.Contains(t.Address) {
		return true
	}
	return t.Prefix.Overlaps(pods) && t.Prefix.Bits() >= pods.Bits()
}

// Candidates are the ranges that [Choose] tries, in this order: 10.244.0.0/16 to
// 10.255.0.0/16, then 10.200.0.0/16 to 10.243.0.0/16.
func Candidates() []netip.Prefix {
	var all []netip.Prefix
	add := func(first, last int) {
		for second := first; second <= last; second++ {
			all = append(all, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(second)}), 16))
		}
	}
	add(244, 255)
	add(200, 243)
	return all
}

// MachineCandidates are the ranges that [Registry.ReserveMachines] tries, in this order: 10.199.0.0/24 to
// 10.199.255.0/24.
func MachineCandidates() []netip.Prefix {
	var all []netip.Prefix
	for third := range 256 {
		all = append(all, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 199, byte(third)}), 24))
	}
	return all
}

// Choose returns kept, if it is valid and not in anything's way, or else the
// first candidate that nothing overlaps with, or else the first that only
// larger networks contain.
func Choose(kept netip.Prefix, taken []Taken) (netip.Prefix, error) {
	if kept.IsValid() && InTheWay(kept, taken) == nil {
		return kept, nil
	}
	for _, pods := range Candidates() {
		if !overlapped(pods, taken) {
			return pods, nil
		}
	}
	for _, pods := range Candidates() {
		if InTheWay(pods, taken) == nil {
			return pods, nil
		}
	}
	first := Candidates()[0]
	return netip.Prefix{}, fmt.Errorf("no range of addresses is free for pods: %s is in the way of %v, and so on to %v",
		InTheWay(first, taken).By, first, Candidates()[len(Candidates())-1])
}

func overlapped(pods netip.Prefix, taken []Taken) bool {
	for _, t := range taken {
		if t.Prefix.Overlaps(pods) {
			return true
		}
	}
	return false
}

// InTheWay returns the first of taken that would keep pods in the range from
// being reached, or nil.
func InTheWay(pods netip.Prefix, taken []Taken) *Taken {
	for i, t := range taken {
		if t.blocks(pods) {
			return &taken[i]
		}
	}
	return nil
}
