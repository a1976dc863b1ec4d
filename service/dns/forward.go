package dns

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/singleflight"
)

// FailureTTL is how long the failure of all upstreams is remembered.
const FailureTTL = 5 * time.Second

// exchange asks one resolver and returns its answer.
type exchange func(ctx context.Context, m *dns.Msg, to netip.AddrPort) (*dns.Msg, error)

// forwarder asks upstreams and remembers their answers. It is safe for concurrent use.
type forwarder struct {
	upstreams []*upstream
	exchange  exchange
	cache     *cache
	maxTTL    time.Duration
	timeout   time.Duration // of one question to all upstreams
	meters    Meters
	// isOwn reports whether this server answers about a name: what upstreams say about it does not count.
	isOwn   func(lower string) bool
	flights singleflight.Group
}

// ask returns the answer to a question, and remembers it. An answer that cannot be had is SERVFAIL.
func (f *forwarder) ask(ctx context.Context, k cacheKey) *remembered {
	flight := fmt.Sprint(k.kind, k.dnssec, k.checking, k.name)
	done := f.flights.DoChan(flight, func() (any, error) {
		if r := f.cache.get(k, time.Now()); r != nil {
			return r, nil
		}
		// Several callers may wait, so that the end of one does not end the exchange.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.timeout)
		defer cancel()
		r := f.fetch(ctx, k)
		f.cache.put(r)
		return r, nil
	})
	select {
	case r := <-done:
		return r.Val.(*remembered)
	case <-ctx.Done():
		return failure(k)
	}
}

// fetch asks the upstreams, one after the other.
func (f *forwarder) fetch(ctx context.Context, k cacheKey) *remembered {
	var last *remembered
	for _, u := range f.usable() {
		m, err := f.askOne(ctx, k, u)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			continue
		}
		r, err := f.digest(k, m)
		if err != nil {
			continue
		}
		if r.rcode == dns.RcodeSuccess || r.rcode == dns.RcodeNameError {
			return r
		}
		last = r
	}
	if last == nil {
		last = failure(k)
	}
	return last
}

// usable returns the upstreams in the order in which they are asked: those that did not answer last
// come last, those that lead back to this server not at all.
func (f *forwarder) usable() []*upstream {
	now := time.Now()
	var well, ill []*upstream
	for _, u := range f.upstreams {
		switch u.state(now) {
		case answers:
			well = append(well, u)
		case silent:
			ill = append(ill, u)
		}
	}
	return slices.Concat(well, ill)
}

// askOne asks one upstream.
func (f *forwarder) askOne(ctx context.Context, k cacheKey, u *upstream) (*dns.Msg, error) {
	m := new(dns.Msg).SetQuestion(k.name, k.kind)
	m.CheckingDisabled = k.checking
	m.SetEdns0(MaxUDPSize, k.dnssec)
	// Each upstream gets its share of the time that is left.
	if deadline, ok := ctx.Deadline(); ok && len(f.upstreams) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(time.Until(deadline)/2, 10*time.Millisecond))
		defer cancel()
	}
	began := time.Now()
	a, err := f.exchange(ctx, m, u.AddrPort)
	took := time.Since(began)
	if err == nil && (!a.Response || a.Id != m.Id || len(a.Question) != 1 || a.Question[0].Qtype != k.kind ||
		a.Question[0].Qclass != dns.ClassINET || !strings.EqualFold(a.Question[0].Name, k.name)) {
		err = errors.New("the answer is not one to the question")
	}
	if err != nil {
		f.meters.forwarded(u.AddrPort, "", took)
		u.failed(time.Now())
		return nil, err
	}
	u.answered()
	f.meters.forwarded(u.AddrPort, dns.RcodeToString[a.Rcode], took)
	return a, nil
}

// digest makes an answer of what an upstream sent. Records that do not belong to the question are left
// out.
func (f *forwarder) digest(k cacheKey, a *dns.Msg) (*remembered, error) {
	m := new(dns.Msg).SetQuestion(k.name, k.kind)
	m.Response, m.Rcode, m.RecursionAvailable = true, a.Rcode, true
	m.AuthenticatedData = a.AuthenticatedData && k.dnssec
	r := &remembered{key: k, rcode: a.Rcode, stored: time.Now()}
	var found bool
	m.Answer, r.next, found = f.chain(k, a.Answer)
	ttl := f.maxTTL
	for _, rr := range m.Answer {
		ttl = min(ttl, f.limit(rr))
	}
	if !found && r.next == "" || r.rcode != dns.RcodeSuccess {
		r.next, r.denial = "", true
		negative := FailureTTL // also of answers without SOA record
		for _, rr := range a.Ns {
			soa, isSOA := rr.(*dns.SOA)
			if !f.belongs(k, rr, m.Answer) {
				continue
			}
			lives := f.limit(rr)
			if isSOA && (r.rcode == dns.RcodeSuccess || r.rcode == dns.RcodeNameError) {
				negative = min(lives, time.Duration(soa.Minttl)*time.Second)
			}
			m.Ns = append(m.Ns, rr)
		}
		ttl = min(ttl, negative)
	}
	r.until = r.stored.Add(ttl)
	m.Compress = true
	var err error
	if r.packet, err = m.Pack(); err != nil {
		return nil, err
	}
	r.packet = slices.Clip(r.packet)
	r.ttls, err = ttlOffsets(r.packet)
	return r, err
}

// limit bounds the TTL of a record, which clients would otherwise remember for years, and returns it. One that is negative counts as
// zero, by RFC 2181.
func (f *forwarder) limit(rr dns.RR) time.Duration {
	h := rr.Header()
	if h.Ttl > math.MaxInt32 {
		h.Ttl = 0
	}
	h.Ttl = min(h.Ttl, uint32(f.maxTTL/time.Second))
	return time.Duration(h.Ttl) * time.Second
}

// belongs reports whether a record of the authority section is one of a denial: the SOA record of a zone that has the name, or
// the name that an alias leads to, and, for clients that ask for signatures, what proves the denial.
func (f *forwarder) belongs(k cacheKey, rr dns.RR, answer []dns.RR) bool {
	h := rr.Header()
	if h.Class != dns.ClassINET || f.isOwn(strings.ToLower(h.Name)) {
		return false
	}
	switch h.Rrtype {
	case dns.TypeSOA:
		return dns.IsSubDomain(h.Name, k.name) || slices.ContainsFunc(answer, func(a dns.RR) bool {
			alias, ok := a.(*dns.CNAME)
			return ok && dns.IsSubDomain(h.Name, alias.Target)
		})
	case dns.TypeNSEC, dns.TypeNSEC3, dns.TypeRRSIG:
		return k.dnssec
	}
	return false
}

// chain returns the records of an answer that belong to the question: those of its name, and those of
// the names that CNAME records lead to, unless this server answers about them. If the chain ends without a record of the type, next
// is the name at its end.
func (f *forwarder) chain(k cacheKey, all []dns.RR) (kept []dns.RR, next string, found bool) {
	name := k.name
	for range maxChain {
		alias := ""
		for _, rr := range all {
			h := rr.Header()
			if h.Class != dns.ClassINET || !strings.EqualFold(h.Name, name) {
				continue
			}
			cname, isCNAME := rr.(*dns.CNAME)
			if h.Rrtype == k.kind || k.kind == dns.TypeANY {
				found = true
			} else if isCNAME && alias == "" {
				alias = strings.ToLower(cname.Target)
			} else if h.Rrtype != dns.TypeRRSIG || !k.dnssec {
				continue
			}
			h.Name = name // whose letters were of random case
			kept = append(kept, rr)
		}
		if found || alias == "" {
			break
		}
		if name, next = alias, alias; f.isOwn(name) {
			break
		}
	}
	if found {
		next = ""
	}
	return kept, next, found
}

// failure returns SERVFAIL.
func failure(k cacheKey) *remembered {
	m := new(dns.Msg).SetQuestion(k.name, k.kind)
	m.Response, m.Rcode, m.RecursionAvailable = true, dns.RcodeServerFailure, true
	packet, _ := m.Pack() // a question of a packet can be packed
	now := time.Now()
	return &remembered{key: k, packet: packet, rcode: m.Rcode, denial: true, stored: now, until: now.Add(FailureTTL)}
}
