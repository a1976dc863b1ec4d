package service

import (
	"iter"
	"math/rand/v2"
	"net/netip"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// defaultRange is the name of the ServiceCIDR that has the configured ranges. While it does not
// exist, addresses come from these all the same.
const defaultRange = "kubernetes"

// ranges returns the ranges of a family that addresses can be taken from, the configured one first.
func (c Config) ranges(values apiserver.Values, family corev1.IPFamily) ([]netip.Prefix, error) {
	objects, err := values.All(kinds.ServiceCIDRs.GroupResource())
	if err != nil {
		return nil, err
	}
	first, more := c.CIDRs, []netip.Prefix(nil)
	for _, obj := range objects {
		r := obj.(*networkingv1.ServiceCIDR)
		if r.Name == defaultRange {
			first = prefixes(r)
		} else {
			more = append(more, prefixes(r)...)
		}
	}
	var out []netip.Prefix
	for _, p := range append(first[:len(first):len(first)], more...) {
		if check.FamilyOf(p.Addr().String()) == family {
			out = append(out, p)
		}
	}
	return out, nil
}

// prefixes returns the ranges of a ServiceCIDR, none if it is not ready. Without a condition it is,
// for then no controller looks after it.
func prefixes(r *networkingv1.ServiceCIDR) []netip.Prefix {
	ready := meta.FindStatusCondition(r.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if r.DeletionTimestamp != nil || ready != nil && ready.Status != metav1.ConditionTrue {
		return nil
	}
	var out []netip.Prefix
	for _, cidr := range r.Spec.CIDRs {
		if p, err := netip.ParsePrefix(cidr); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// isHost reports whether a service can have an address of a range.
func isHost(r netip.Prefix, ip netip.Addr) bool {
	return r.Contains(ip) && ip != r.Masked().Addr() && (ip.Is6() || r.Contains(ip.Next()))
}

// Of the addresses of a range, the first sixteenth is for services that request an address, but not
// less than minStatic and not more than maxStatic addresses. A range of no more than minStatic has
// none.
const (
	minStatic = 16
	maxStatic = 256
)

// hosts returns the first address of a range that a service can have, and how many there are: not
// the network's own and, with IPv4, not its broadcast address. The first low of them are for services
// that request an address. Of large ranges it is the first 2^32.
func hosts(r netip.Prefix) (first netip.Addr, n, low uint64) {
	bits := min(r.Addr().BitLen()-r.Bits(), 32)
	size := uint64(1) << bits
	if size > minStatic {
		low = min(max(size/16, minStatic), maxStatic)
	}
	spare := uint64(1)
	if r.Addr().Is4() {
		spare = 2
	}
	if size <= spare {
		return r.Masked().Addr(), 0, 0
	}
	return r.Masked().Addr().Next(), size - spare, low
}

// searchOrder yields [low, n) once around from a random place, then [0, low).
func searchOrder(n, low uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		upper := n - low
		start := uint64(0)
		if upper > 0 {
			start = rand.Uint64N(upper)
		}
		for i := range n {
			at := i - upper
			if i < upper {
				at = low + (start+i)%upper
			}
			if !yield(at) {
				return
			}
		}
	}
}

// plus returns the address n after ip. n is less than 2^33.
func plus(ip netip.Addr, n uint64) netip.Addr {
	b := ip.AsSlice()
	for i := len(b) - 1; i >= 0 && n > 0; i-- {
		n += uint64(b[i])
		b[i] = byte(n)
		n >>= 8
	}
	out, _ := netip.AddrFromSlice(b) // as long as the slice of an address
	return out
}
