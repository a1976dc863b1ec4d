package kubecel

import (
	"fmt"
	"net/netip"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

var (
	ips   = reading[netip.Addr]{cel.OpaqueType("net.IP"), parseIP, func(a, b netip.Addr) bool { return a == b }}
	cidrs = reading[netip.Prefix]{cel.OpaqueType("net.CIDR"), parseCIDR, func(a, b netip.Prefix) bool { return a == b }}
)

func parseIP(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return a, fmt.Errorf("IP Address %q parse error during conversion from string: %w", text, err)
	case a.Zone() != "":
		return a, fmt.Errorf("IP address %q with zone value is not allowed", text)
	case a.Is4In6():
		return a, fmt.Errorf("IPv4-mapped IPv6 address %q is not allowed", text)
	}
	return a, nil
}

func parseCIDR(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, fmt.Errorf("network address parse error during conversion from string: %w", err)
	case p.Addr().Is4In6():
		return p, fmt.Errorf("IPv4-mapped IPv6 address %q is not allowed", text)
	}
	return p, nil
}

// addresses returns Kubernetes' libraries for IP addresses and networks.
func addresses() []cel.EnvOption {
	text, ip := []*cel.Type{cel.StringType}, []*cel.Type{ips.of}
	asks := func(name, overload string, is func(netip.Addr) bool) cel.EnvOption {
		return member(name, overload, ips.of, cel.BoolType, func(a netip.Addr) ref.Val { return types.Bool(is(a)) })
	}
	options := []cel.EnvOption{
		cel.Function("ip", cel.Overload("string_to_ip", text, ips.of, ips.converts()),
			cel.MemberOverload("cidr_ip", []*cel.Type{cidrs.of}, ips.of, unary(func(p netip.Prefix) ref.Val { return ips.value(p.Addr()) }))),
		cel.Function("isIP", cel.Overload("is_ip", text, cel.BoolType, ips.tries())),
		cel.Function("ip.isCanonical", cel.Overload("ip_is_canonical", text, cel.BoolType, unary(func(s string) ref.Val {
			a, err := parseIP(s)
			if err != nil {
				return types.NewErr("%v", err)
			}
			return types.Bool(a.String() == s)
		}))),
		cel.Function("string",
			cel.Overload("ip_to_string", ip, cel.StringType, unary(func(a netip.Addr) ref.Val { return types.String(a.String()) })),
			cel.Overload("cidr_to_string", []*cel.Type{cidrs.of}, cel.StringType, unary(func(p netip.Prefix) ref.Val { return types.String(p.String()) }))),
		member("family", "ip_family", ips.of, cel.IntType, func(a netip.Addr) ref.Val {
			if a.Is4() {
				return types.Int(4)
			}
			return types.Int(6)
		}),
		asks("isUnspecified", "ip_is_unspecified", netip.Addr.IsUnspecified),
		asks("isLoopback", "ip_is_loopback", netip.Addr.IsLoopback),
		asks("isLinkLocalMulticast", "ip_is_link_local_multicast", netip.Addr.IsLinkLocalMulticast),
		asks("isLinkLocalUnicast", "ip_is_link_local_unicast", netip.Addr.IsLinkLocalUnicast),
		asks("isGlobalUnicast", "ip_is_global_unicast", netip.Addr.IsGlobalUnicast),
	}
	return append(options, networks()...)
}

func networks() []cel.EnvOption {
	text := []*cel.Type{cel.StringType}
	holds := func(p netip.Prefix, a netip.Addr) ref.Val { return types.Bool(p.Contains(a)) }
	// A network contains another if the other is no larger and they have an address in common.
	covers := func(p, q netip.Prefix) ref.Val { return types.Bool(p.Overlaps(q) && p.Bits() <= q.Bits()) }
	return []cel.EnvOption{
		cel.Function("cidr", cel.Overload("string_to_cidr", text, cidrs.of, cidrs.converts())),
		cel.Function("isCIDR", cel.Overload("is_cidr", text, cel.BoolType, cidrs.tries())),
		cel.Function("containsIP",
			cel.MemberOverload("cidr_contains_ip_string", []*cel.Type{cidrs.of, cel.StringType}, cel.BoolType, binary(func(p netip.Prefix, s string) ref.Val {
				a, err := parseIP(s)
				if err != nil {
					return types.NewErr("%v", err)
				}
				return holds(p, a)
			})),
			cel.MemberOverload("cidr_contains_ip_ip", []*cel.Type{cidrs.of, ips.of}, cel.BoolType, binary(holds))),
		cel.Function("containsCIDR",
			cel.MemberOverload("cidr_contains_cidr_string", []*cel.Type{cidrs.of, cel.StringType}, cel.BoolType, binary(func(p netip.Prefix, s string) ref.Val {
				q, err := parseCIDR(s)
				if err != nil {
					return types.NewErr("%v", err)
				}
				return covers(p, q)
			})),
			cel.MemberOverload("cidr_contains_cidr", []*cel.Type{cidrs.of, cidrs.of}, cel.BoolType, binary(covers))),
		member("prefixLength", "cidr_prefix_length", cidrs.of, cel.IntType, func(p netip.Prefix) ref.Val { return types.Int(p.Bits()) }),
		member("masked", "cidr_masked", cidrs.of, cidrs.of, func(p netip.Prefix) ref.Val { return cidrs.value(p.Masked()) }),
	}
}
