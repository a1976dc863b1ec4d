//go:build linux

package portmap

import (
	"fmt"
	"net/netip"

	"github.com/planekit/planekit/cni"
)

// condition is one restriction of the connections that are forwarded.
type condition struct {
	// what is the short form of the option of iptables.
	what byte
	not  bool
	// prefix is the operand of -s and -d, link that of -i.
	prefix netip.Prefix
	link   string
}

// options maps the words of iptables to their short form.
var options = map[string]byte{
	"-s": 's', "--source": 's', "--src": 's',
	"-d": 'd', "--destination": 'd', "--dst": 'd',
	"-i": 'i', "--in-interface": 'i',
}

// parseConditions reads words of iptables.
func parseConditions(words []string, v6 bool) ([]condition, error) {
	var all []condition
	for len(words) > 0 {
		var c condition
		if words[0] == "!" {
			c.not, words = true, words[1:]
		}
		if len(words) < 2 {
			return nil, fmt.Errorf("conditions end with %q", append([]string{"!"}, words...)[len(words)])
		}
		var err error
		if c.what = options[words[0]]; c.what == 0 {
			return nil, fmt.Errorf("condition %q is not supported: -s, -d and -i are", words[0])
		}
		if c.what == 'i' {
			c.link, err = words[1], cni.CheckIfName(words[1])
		} else {
			c.prefix, err = parsePrefix(words[1], v6)
		}
		if err != nil {
			return nil, fmt.Errorf("condition %s: %w", words[0], err)
		}
		all, words = append(all, c), words[2:]
	}
	return all, nil
}

// parsePrefix reads an address with or without a prefix length.
func parsePrefix(s string, v6 bool) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if addr, bare := netip.ParseAddr(s); bare == nil && addr.Zone() == "" {
		p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if err != nil || p.Addr().Is4In6() {
		return p, fmt.Errorf("%q is not an address or a prefix", s)
	}
	if p.Addr().Is6() != v6 {
		return p, fmt.Errorf("%q is of the other family", s)
	}
	return p.Masked(), nil
}

func (c condition) part() part {
	switch c.what {
	case 's':
		return source(c.prefix, c.not)
	case 'd':
		return destination(c.prefix, c.not)
	}
	return fromLink(c.link, c.not)
}
