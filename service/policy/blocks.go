package policy

import (
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/planekit/planekit/service/ruleset"
)

// span is the addresses from first to last.
type span struct{ first, last netip.Addr }

// blocks are the addresses of address blocks as spans of one family, in their order, of which none overlap or adjoin.
type blocks []span

// blocksOf returns the addresses of one family in the blocks of some peers. What cannot be parsed is in no block.
func blocksOf(peers []networkingv1.NetworkPolicyPeer, f ruleset.Family) blocks {
	var all blocks
	for _, peer := range peers {
		if peer.IPBlock == nil {
			continue
		}
		cidr, ok := spanOf(peer.IPBlock.CIDR)
		if !ok || ruleset.FamilyOf(cidr.first) != f {
			continue
		}
		var except blocks
		for _, text := range peer.IPBlock.Except {
			if e, ok := spanOf(text); ok && ruleset.FamilyOf(e.first) == f {
				except = append(except, e)
			}
		}
		all = append(all, without(cidr, merge(except))...)
	}
	return merge(all)
}

func spanOf(text string) (span, bool) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return span{}, false
	}
	first := p.Masked().Addr()
	last := first.AsSlice()
	for bit := p.Bits(); bit < first.BitLen(); bit++ {
		last[bit/8] |= 0x80 >> (bit % 8)
	}
	end, _ := netip.AddrFromSlice(last)
	return span{first, end}, true
}

// merge returns the addresses of spans in any order.
func merge(all blocks) blocks {
	slices.SortFunc(all, func(a, b span) int { return a.first.Compare(b.first) })
	merged := all[:0]
	for _, s := range all {
		if n := len(merged); n > 0 {
			previous := &merged[n-1]
			if next := previous.last.Next(); !next.IsValid() || s.first.Compare(next) <= 0 {
				if s.last.Compare(previous.last) > 0 {
					previous.last = s.last
				}
				continue
			}
		}
		merged = append(merged, s)
	}
	return merged
}

// without returns the addresses of a span that are in none of some merged ones.
func without(s span, except blocks) blocks {
	var left blocks
	for _, e := range except {
		if e.last.Less(s.first) {
			continue
		}
		if s.last.Less(e.first) {
			break
		}
		if s.first.Less(e.first) {
			left = append(left, span{s.first, e.first.Prev()})
		}
		if s.first = e.last.Next(); !s.first.IsValid() || s.last.Less(s.first) {
			return left
		}
	}
	return append(left, s)
}

func (all blocks) contain(a netip.Addr) bool {
	i, found := slices.BinarySearchFunc(all, a, func(s span, a netip.Addr) int { return s.first.Compare(a) })
	return found || i > 0 && !all[i-1].last.Less(a)
}
