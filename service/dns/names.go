package dns

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// schemaVersion is the version of the specification, which dns-version says.
const schemaVersion = "1.1.0"

// place says what a name of the cluster's domain stands for.
type place uint8

const (
	nowhere    place = iota // no name of the specification
	apex                    // the domain itself
	versionTXT              // dns-version
	nameServer              // ns.dns
	branch                  // svc, pod, dns
	namespace               // NAMESPACE.svc and NAMESPACE.pod
	ofService               // a service, its ports and its endpoints
	ofPod                   // ADDRESS.NAMESPACE.pod
)

// A name is a parsed name of the cluster's domain, in lower case.
type name struct {
	place              place
	service, namespace string
	// host is the hostname of an endpoint, or the address of a pod as a label.
	host string
	// port and protocol are those of _PORT._PROTOCOL.SERVICE, without underscores. protocol alone is a
	// name that exists because others lie below it.
	port, protocol string
}

// parseName parses the part of a name before the domain, in lower case and without its last dot.
func parseName(s string) name {
	if s == "" {
		return name{place: apex}
	}
	if strings.IndexByte(s, '\\') >= 0 {
		return name{} // no object has such a name
	}
	rest, last := cutLast(s)
	switch {
	case s == "dns-version":
		return name{place: versionTXT}
	case s == "ns.dns":
		return name{place: nameServer}
	case s == "dns" || s == "svc" || s == "pod":
		return name{place: branch}
	case last != "svc" && last != "pod" || rest == "":
		return name{}
	}
	var n name
	rest, n.namespace = cutLast(rest)
	if rest == "" {
		n.place = namespace
		return n
	}
	if last == "pod" {
		n.place, n.host = ofPod, rest
		return n
	}
	n.place = ofService
	rest, n.service = cutLast(rest)
	if rest == "" {
		return n
	}
	rest, label := cutLast(rest)
	protocol, isProtocol := strings.CutPrefix(label, "_")
	if !isProtocol {
		if n.host = label; rest != "" {
			return name{}
		}
		return n
	}
	n.protocol = protocol
	if rest == "" {
		return n
	}
	port, isPort := strings.CutPrefix(rest, "_")
	if !isPort || port == "" || strings.IndexByte(port, '.') >= 0 {
		return name{}
	}
	n.port = port
	return n
}

// cutLast cuts off the last label.
func cutLast(s string) (rest, last string) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return "", s
	}
	return s[:i], s[i+1:]
}

// podAddress returns the address that a label of a pod stands for: 10-244-1-2 or fd00--1.
func podAddress(label string) (netip.Addr, bool) {
	text := strings.ReplaceAll(label, "-", ":")
	if strings.Count(label, "-") == 3 && !strings.Contains(label, "--") {
		text = strings.ReplaceAll(label, "-", ".")
	}
	a, err := netip.ParseAddr(text)
	return a, err == nil && !a.Is4In6()
}

// hostLabel returns the hostname of an endpoint that has none.
func hostLabel(a netip.Addr) string {
	if a.Is4() {
		return strings.ReplaceAll(a.String(), ".", "-")
	}
	label := strings.ReplaceAll(a.String(), ":", "-")
	// A label must not begin or end with a dash.
	if strings.HasPrefix(label, "-") {
		label = "0" + label
	}
	if strings.HasSuffix(label, "-") {
		label += "0"
	}
	return label
}

// Reverse zones.
const (
	reverse4 = "in-addr.arpa."
	reverse6 = "ip6.arpa."
)

// reverseAddress returns the address of a whole reverse name, in lower case with its last dot, and the
// reverse zone.
func reverseAddress(s string) (a netip.Addr, zone string, ok bool) {
	if rest, found := strings.CutSuffix(s, "."+reverse4); found {
		labels := strings.Split(rest, ".")
		if len(labels) != 4 {
			return a, "", false
		}
		a, err := netip.ParseAddr(labels[3] + "." + labels[2] + "." + labels[1] + "." + labels[0])
		return a, reverse4, err == nil
	}
	rest, found := strings.CutSuffix(s, "."+reverse6)
	if !found || len(rest) != 63 {
		return a, "", false
	}
	var bytes [16]byte
	for i := range 32 {
		digit := strings.IndexByte("0123456789abcdef", rest[2*i])
		if digit < 0 || i < 31 && rest[2*i+1] != '.' {
			return a, "", false
		}
		bytes[15-i/2] |= byte(digit) << (4 * (i % 2))
	}
	return netip.AddrFrom16(bytes), reverse6, true
}

// validDomain reports whether s is a domain name in canonical form without its last dot.
func validDomain(s string) bool {
	_, ok := dns.IsDomainName(s)
	return ok && s != "" && s == strings.ToLower(s) && !strings.HasSuffix(s, ".") && !strings.HasPrefix(s, ".") && !strings.Contains(s, `\`)
}
