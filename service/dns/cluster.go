package dns

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// result is the answer to a question, or a step of one.
type result struct {
	rcode         int
	answer, extra []dns.RR
	// zone is the zone that this server answers for; empty for answers of upstreams.
	zone string
	// authority is the authority section of an answer of an upstream.
	authority []dns.RR
	// next is the name to go on with, after a CNAME record.
	next string
}

// versionTTL is the TTL of dns-version, from the specification, in seconds.
const versionTTL = 28800

// question is a question with its name in lower case.
type question struct {
	dns.Question
	lower string
	// max is the length of the longest answer, in bytes. Records that cannot fit are not made.
	max int
}

// inDomain returns the part of the name before the cluster's domain, and whether it is in that domain.
func (s *Server) inDomain(lower string) (string, bool) {
	rest, ok := strings.CutSuffix(lower, s.suffix)
	if !ok {
		return "", lower == s.suffix[1:]
	}
	return rest, true
}

// local answers a question from the index. It reports false for names that upstreams know.
func (s *Server) local(q question) (result, bool) {
	if rest, ok := s.inDomain(q.lower); ok {
		if !s.isReady() {
			return result{rcode: dns.RcodeServerFailure}, true
		}
		r := s.cluster(q, parseName(rest))
		r.zone = s.suffix[1:]
		return r, true
	}
	if strings.HasSuffix(q.lower, ".arpa.") {
		return s.reverse(q)
	}
	return result{}, false
}

// cluster answers a question about the cluster's domain.
func (s *Server) cluster(q question, n name) result {
	switch n.place {
	case apex:
		return s.apex(q)
	case versionTXT:
		if q.Qtype != dns.TypeTXT {
			return result{}
		}
		return result{answer: []dns.RR{&dns.TXT{Hdr: header(q.Name, dns.TypeTXT, versionTTL), Txt: []string{schemaVersion}}}}
	case nameServer:
		return result{answer: s.addresses(q, s.Addresses)}
	case branch:
		return result{}
	case namespace:
		if s.index.hasNamespace(n.namespace) {
			return result{}
		}
	case ofPod:
		if a, ok := podAddress(n.host); ok && s.index.mayHavePods(n.namespace) {
			return result{answer: s.addresses(q, []netip.Addr{a})}
		}
	case ofService:
		if r := s.index.find(key{n.namespace, n.service}); r != nil {
			return s.service(q, n, r)
		}
	}
	return result{rcode: dns.RcodeNameError}
}

func (s *Server) apex(q question) result {
	zone := s.suffix[1:]
	switch q.Qtype {
	case dns.TypeSOA:
		return result{answer: []dns.RR{s.soa(q.Name)}}
	case dns.TypeNS:
		ns := "ns.dns." + zone
		r := result{answer: []dns.RR{&dns.NS{Hdr: header(q.Name, dns.TypeNS, s.ttl), Ns: ns}}}
		for _, a := range s.Addresses {
			r.extra = append(r.extra, s.address(ns, a))
		}
		return r
	}
	return result{}
}

// soa returns the SOA record of a zone. Its last number and its TTL say for how long clients remember
// what does not exist.
func (s *Server) soa(zone string) *dns.SOA {
	return &dns.SOA{
		Hdr: header(zone, dns.TypeSOA, s.ttl), Ns: "ns.dns." + s.suffix[1:], Mbox: "hostmaster." + s.suffix[1:],
		Serial: s.serial, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: s.ttl,
	}
}

// service answers a question about a service, its ports or its endpoints.
func (s *Server) service(q question, n name, r *records) result {
	if r.external != "" {
		if n.host != "" || n.protocol != "" {
			return result{rcode: dns.RcodeNameError}
		}
		return result{
			answer: []dns.RR{&dns.CNAME{Hdr: header(q.Name, dns.TypeCNAME, s.ttl), Target: r.external}}, next: r.external,
		}
	}
	own := dnsName(n.service, n.namespace, s.suffix)
	switch {
	case n.host != "":
		addrs := r.hosts[n.host]
		if len(addrs) == 0 {
			return result{rcode: dns.RcodeNameError}
		}
		if q.Qtype == dns.TypeSRV {
			return s.targets(q, r, own, func(t target) bool { return t.host == n.host })
		}
		return result{answer: s.addresses(q, addrs)}
	case n.protocol != "":
		return s.ports(q, n, r, own)
	case r.headless && len(r.addrs) == 0, r.addrs == nil && r.ports == nil:
		return result{rcode: dns.RcodeNameError}
	case q.Qtype == dns.TypeSRV && r.headless:
		return s.targets(q, r, own, func(target) bool { return true })
	case q.Qtype == dns.TypeSRV:
		return s.services(q, r, own, func(port) bool { return true })
	}
	return result{answer: s.addresses(q, r.addrs)}
}

// ports answers a question about _PORT._PROTOCOL.SERVICE or _PROTOCOL.SERVICE.
func (s *Server) ports(q question, n name, r *records, own string) result {
	is := func(p port) bool {
		return p.protocol == n.protocol && p.name != "" && (n.port == "" || p.name == n.port)
	}
	isTarget := func(t target) bool { return is(t.port) }
	exists := false
	if r.headless {
		for _, t := range r.targets {
			exists = exists || isTarget(t)
		}
	} else {
		for _, p := range r.ports {
			exists = exists || is(p)
		}
	}
	switch {
	case !exists:
		return result{rcode: dns.RcodeNameError}
	case n.port == "":
		return result{} // the name exists, because ports lie below it
	case q.Qtype == dns.TypeSRV && r.headless:
		return s.targets(q, r, own, isTarget)
	case q.Qtype == dns.TypeSRV:
		return s.services(q, r, own, is)
	case r.headless:
		var addrs []netip.Addr
		seen := map[netip.Addr]bool{}
		for _, t := range r.targets {
			if isTarget(t) && !seen[t.addr] {
				seen[t.addr] = true
				addrs = append(addrs, t.addr)
			}
		}
		return result{answer: s.addresses(q, addrs)}
	}
	return result{answer: s.addresses(q, r.addrs)}
}

// services returns the SRV records of a service with cluster addresses.
func (s *Server) services(q question, r *records, own string, want func(port) bool) result {
	var numbers []uint16
	for _, p := range r.ports {
		if want(p) && !slices.Contains(numbers, p.number) {
			numbers = append(numbers, p.number)
		}
	}
	var out result
	for _, n := range numbers {
		out.answer = append(out.answer, s.srv(q, len(numbers), n, own))
	}
	for _, a := range r.addrs {
		out.extra = append(out.extra, s.address(own, a))
	}
	return out
}

// minSRV is the least length of an SRV record, in bytes.
const minSRV = 12 + 6 + 2

// hostPort has the target and the port of an SRV record.
type hostPort struct {
	host   string
	number uint16
}

// targets returns the SRV records of endpoints, in random order, with their addresses.
func (s *Server) targets(q question, r *records, own string, want func(target) bool) result {
	var all []hostPort
	once := map[hostPort]bool{}
	for _, t := range r.targets {
		if p := (hostPort{t.host, t.number}); want(t) && !once[p] {
			once[p] = true
			all = append(all, p)
		}
	}
	weight := len(all)
	all = shuffled(all, q.max/minSRV+1)
	var out result
	seen := map[string]bool{}
	for _, t := range all {
		host := t.host + "." + own
		out.answer = append(out.answer, s.srv(q, weight, t.number, host))
		if seen[host] {
			continue
		}
		seen[host] = true
		for _, a := range r.hosts[t.host] {
			out.extra = append(out.extra, s.address(host, a))
		}
	}
	return out
}

// srv returns an SRV record of one of several equal targets.
func (s *Server) srv(q question, among int, number uint16, host string) dns.RR {
	return &dns.SRV{Hdr: header(q.Name, dns.TypeSRV, s.ttl), Weight: uint16(max(1, 100/among)), Port: number, Target: host}
}

// minAddress is the length of an A record with a compressed name, in bytes.
const minAddress = 12 + 4

// addresses returns the A or AAAA records for addresses, in random order.
func (s *Server) addresses(q question, all []netip.Addr) []dns.RR {
	if q.Qtype != dns.TypeA && q.Qtype != dns.TypeAAAA {
		return nil
	}
	var some []netip.Addr
	for _, a := range all {
		if a.Is4() == (q.Qtype == dns.TypeA) {
			some = append(some, a)
		}
	}
	some = shuffled(some, q.max/minAddress+1)
	records := make([]dns.RR, 0, len(some))
	for _, a := range some {
		records = append(records, s.address(q.Name, a))
	}
	return records
}

func (s *Server) address(name string, a netip.Addr) dns.RR {
	if a.Is4() {
		return &dns.A{Hdr: header(name, dns.TypeA, s.ttl), A: a.AsSlice()}
	}
	return &dns.AAAA{Hdr: header(name, dns.TypeAAAA, s.ttl), AAAA: a.AsSlice()}
}

// shuffled puts all into random order and returns at most the given number of them.
func shuffled[T any](all []T, most int) []T {
	for i := range min(most, len(all)-1) {
		j := i + rand.IntN(len(all)-i)
		all[i], all[j] = all[j], all[i]
	}
	return all[:min(most, len(all))]
}

// reverse answers a question about the name of an address. It reports false for an address that is
// neither known nor in [Config.ReverseRanges].
func (s *Server) reverse(q question) (result, bool) {
	a, zone, ok := reverseAddress(q.lower)
	if !ok {
		return result{}, false
	}
	own := false
	for _, r := range s.ReverseRanges {
		own = own || r.Contains(a)
	}
	if !s.isReady() {
		return result{rcode: dns.RcodeServerFailure}, own
	}
	names := s.index.names(a, q.max/minAddress+1)
	if len(names) == 0 {
		return result{rcode: dns.RcodeNameError, zone: zone}, own
	}
	out := result{zone: zone}
	if q.Qtype == dns.TypePTR {
		for _, n := range shuffled(names, q.max/minAddress+1) {
			out.answer = append(out.answer, &dns.PTR{Hdr: header(q.Name, dns.TypePTR, s.ttl), Ptr: n + ".svc" + s.suffix})
		}
	}
	return out, true
}

func header(name string, kind uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
}

// dnsName returns the name of a service.
func dnsName(service, namespace, suffix string) string {
	return service + "." + namespace + ".svc" + suffix
}
