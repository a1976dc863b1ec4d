package memruntime

import (
	"net/netip"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// pool allocates the addresses of one range. It never allocates the network address, the first
// address after it, where a bridge would be, and the broadcast address of an IPv4 range. The search
// continues from the last allocated address, so that freed addresses are reused late.
type pool struct {
	prefix netip.Prefix
	last   netip.Addr
	used   map[netip.Addr]bool
}

func newPools(cidrs string) ([]*pool, error) {
	var pools []*pool
	for cidr := range strings.SplitSeq(cidrs, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(cidr))
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "pod address range: %v", err)
		}
		prefix = prefix.Masked()
		pools = append(pools, &pool{prefix: prefix, last: prefix.Addr().Next(), used: map[netip.Addr]bool{}})
	}
	return pools, nil
}

func (p *pool) give() (netip.Addr, error) {
	first := p.prefix.Addr().Next().Next()
	candidate := p.last
	wrapped := false
	for {
		candidate = candidate.Next()
		if !p.usable(candidate) {
			if wrapped {
				return netip.Addr{}, status.Errorf(codes.ResourceExhausted, "no free address in %s", p.prefix)
			}
			wrapped = true
			if candidate = first; !p.usable(candidate) {
				continue
			}
		}
		if !p.used[candidate] {
			p.used[candidate] = true
			p.last = candidate
			return candidate, nil
		}
	}
}

// usable reports whether a is within the range and not its broadcast address.
func (p *pool) usable(a netip.Addr) bool {
	return p.prefix.Contains(a) && (a.Is6() || p.prefix.Contains(a.Next()))
}

// take marks addresses as used; those outside the range are ignored.
func (p *pool) take(addresses []netip.Addr) {
	for _, a := range addresses {
		if p.prefix.Contains(a) {
			p.used[a] = true
		}
	}
}

// free frees addresses.
func (p *pool) free(addresses []netip.Addr) {
	for _, a := range addresses {
		delete(p.used, a)
	}
}
