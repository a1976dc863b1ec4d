//go:build linux

package portmap

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"
)

// The chains of a table. Both prerouting and output jump to mappings.
const (
	prerouting  = "prerouting"
	output      = "output"
	mappings    = "mappings"
	postrouting = "postrouting"
	// localnet is followed by the name of an interface that has route_localnet.
	localnet = "localnet-"
)

// table is all that an attachment has in nftables. It is a plan: nothing here reads the kernel.
type table struct {
	name string
	// localnet is the interface that needs route_localnet; empty for none.
	localnet string
	rules    []rule
}

// rule is a line of a chain: conditions and a statement.
type rule struct {
	chain string
	parts []part
}

// text returns the rule in the syntax of nft.
func (r rule) text() string {
	var words []string
	for _, p := range r.parts {
		words = append(words, p.text)
	}
	return strings.Join(words, " ")
}

var loopback4, loopback6 = netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")

// rules returns the table that maps ports to a container's addresses, of which there is one of each
// family. link is the interface on the way to its IPv4 address, and not needed without SNAT.
func (c *Conf) rules(addresses []netip.Prefix, link string) table {
	t := table{name: c.table, localnet: link}
	add := func(chain string, parts ...part) { t.rules = append(t.rules, rule{chain, parts}) }
	add(prerouting, toHost(), jump(mappings))
	add(output, toHost(), jump(mappings))
	for _, address := range addresses {
		for _, m := range c.mappings {
			if !m.mapsTo(address.Addr().Is6()) {
				continue
			}
			match := c.match(m, address.Addr().Is6())
			if *c.SNAT {
				for _, from := range c.masqueraded(address) {
					add(mappings, with(match, source(from, false), setMark(*c.MarkMasqBit))...)
				}
			}
			add(mappings, with(match, dnat(netip.AddrPortFrom(address.Addr(), m.containerPort)))...)
		}
		if *c.SNAT {
			add(postrouting, family(address.Addr().Is6()), marked(*c.MarkMasqBit),
				destination(netip.PrefixFrom(address.Addr(), address.Addr().BitLen()), false), masquerade())
		}
	}
	if link != "" {
		add(localnet+link, fromLink(link, false), family(false), destination(loopback4, false), unrelated(), drop())
	}
	return t
}

// match returns the conditions of one mapping in one family.
func (c *Conf) match(m mapping, v6 bool) []part {
	parts := []part{family(v6)}
	switch {
	case m.hostIP.IsValid() && !m.hostIP.IsUnspecified():
		parts = append(parts, destination(netip.PrefixFrom(m.hostIP, m.hostIP.BitLen()), false))
	case v6:
		parts = append(parts, destination(loopback6, true))
	case !*c.SNAT:
		parts = append(parts, destination(loopback4, true))
	}
	conditions := c.v4
	if v6 {
		conditions = c.v6
	}
	for _, condition := range conditions {
		parts = append(parts, condition.part())
	}
	return append(parts, toPort(m.protocol, m.hostPort))
}

// masqueraded returns the sources to which a container would not reply through the host.
func (c *Conf) masqueraded(address netip.Prefix) []netip.Prefix {
	if c.MasqAll {
		return []netip.Prefix{netip.PrefixFrom(address.Addr(), 0).Masked()}
	}
	if address.Addr().Is6() {
		return []netip.Prefix{address.Masked()}
	}
	return []netip.Prefix{address.Masked(), loopback4}
}

func with(parts []part, more ...part) []part {
	return append(append([]part(nil), parts...), more...)
}

// namePrefix begins the names of all tables of this package, and is followed by the scope.
const namePrefix = "planekit-portmap/"

// maxScope bounds the scope in a table's name, of which the kernel allows 255 bytes.
const maxScope = 200

// tableName returns the name of an attachment's table. The scope can be read in it. The rest is hashed,
// each with a separator that no name contains, so that no two attachments have the same.
func tableName(scope, network, containerID, ifName string) string {
	sum := sha256.Sum256([]byte(scope + "\x00" + network + "\x00" + containerID + "\x00" + ifName))
	return namePrefix + scope + "/" + hex.EncodeToString(sum[:16])
}

// scopeOf returns the scope in the name of a table; empty for all other tables.
func scopeOf(name string) string {
	rest, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return ""
	}
	scope, _, _ := strings.Cut(rest, "/")
	return scope
}
