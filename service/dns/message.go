package dns

import (
	"cmp"
	"context"
	"encoding/binary"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// MaxUDPSize is the length of the longest answer over UDP, in bytes. Longer ones may be fragmented on
// their way.
const MaxUDPSize = 1232

const (
	headerLength = 12
	optLength    = 11
	// maxChain bounds the CNAME records that are followed.
	maxChain = 8
)

// request is a packet of a client.
type request struct {
	dns.Msg
	question
	size     int // of the packet
	received time.Time
	from     netip.Addr
	tcp      bool
	opt      *dns.OPT
	zone     string // for Meters
}

// A response is an answer, or what is needed to get one.
type response struct {
	packet []byte
	// wait gets the answer from upstreams; nil if packet is it. reject returns the answer if too many wait.
	wait   func(context.Context) []byte
	reject func() []byte
}

// respond answers a packet. The zero response means that nothing is sent.
func (s *Server) respond(packet []byte, from netip.Addr, tcp bool) response {
	if len(packet) < headerLength || packet[2]&0x80 != 0 {
		return response{} // answering an answer could go on for ever
	}
	r := &request{size: len(packet), received: time.Now(), from: from, tcp: tcp, zone: "."}
	if rcode := r.parse(packet); rcode != dns.RcodeSuccess {
		return s.packed(r, result{rcode: rcode})
	}
	if s.isProbe(r.question) {
		return s.packed(r, result{rcode: dns.RcodeServerFailure})
	}
	if out, ok := s.resolveNow(r); ok {
		return s.packed(r, out)
	}
	if len(s.forwarder.upstreams) == 0 {
		return s.packed(r, result{rcode: dns.RcodeRefused})
	}
	if known := s.remembered(r.key(r.lower)); known != nil && known.next == "" {
		return response{packet: s.patched(r, known)}
	}
	return response{wait: func(ctx context.Context) []byte {
		if out, ok := s.resolve(ctx, r); ok {
			return s.packed(r, out).packet
		}
		known := s.forwarder.ask(ctx, r.key(r.lower))
		if known.next == "" {
			return s.patched(r, known)
		}
		return s.packed(r, s.follow(ctx, r, r.question)).packet
	}, reject: func() []byte { return s.packed(r, result{rcode: dns.RcodeServerFailure}).packet }}
}

// parse reads a packet and returns the rcode for one that is not a question.
func (r *request) parse(packet []byte) int {
	if err := r.Unpack(packet); err != nil {
		r.Msg = dns.Msg{MsgHdr: dns.MsgHdr{Id: binary.BigEndian.Uint16(packet), RecursionDesired: packet[2]&1 != 0}}
		return dns.RcodeFormatError
	}
	if r.Opcode != dns.OpcodeQuery {
		return dns.RcodeNotImplemented
	}
	if len(r.Msg.Question) != 1 || len(r.Answer) > 0 || len(r.Ns) > 0 {
		return dns.RcodeFormatError
	}
	for _, rr := range r.Extra {
		if opt, ok := rr.(*dns.OPT); ok {
			if r.opt != nil {
				return dns.RcodeFormatError
			}
			r.opt = opt
		}
	}
	q := r.Msg.Question[0]
	r.question = question{Question: q, lower: strings.ToLower(q.Name), max: dns.MaxMsgSize}
	if !r.tcp {
		r.max = dns.MinMsgSize
		if r.opt != nil {
			r.max = min(max(int(r.opt.UDPSize()), dns.MinMsgSize), MaxUDPSize)
		}
	}
	switch {
	case r.opt != nil && r.opt.Version() != 0:
		return dns.RcodeBadVers
	case q.Qclass != dns.ClassINET, q.Qtype == dns.TypeAXFR, q.Qtype == dns.TypeIXFR:
		return dns.RcodeRefused
	}
	return dns.RcodeSuccess
}

// key returns the key of a name in the cache of upstreams' answers.
func (r *request) key(lower string) cacheKey {
	return cacheKey{lower, r.Qtype, r.opt != nil && r.opt.Do(), r.CheckingDisabled}
}

// remembered returns the answer of upstreams that is in the cache.
func (s *Server) remembered(k cacheKey) *remembered {
	known := s.forwarder.cache.get(k, time.Now())
	s.Meters.cached(known != nil, known != nil && known.denial)
	return known
}

// resolve answers a question of which this server knows at least the beginning. It reports false for
// names that upstreams know.
func (s *Server) resolve(ctx context.Context, r *request) (result, bool) {
	out, ok := s.local(r.question)
	if ok && !complete(r, out) {
		out = s.follow(ctx, r, r.question)
	}
	r.zone = cmp.Or(out.zone, r.zone)
	return out, ok
}

// resolveNow is resolve where nothing has to be waited for. It reports false where an upstream may have to be asked.
func (s *Server) resolveNow(r *request) (result, bool) {
	out, ok := s.local(r.question)
	switch {
	case !ok:
		return out, false
	case complete(r, out):
		r.zone = out.zone
		return out, true
	case len(s.forwarder.upstreams) > 0:
		return out, false
	}
	return s.resolve(context.Background(), r) // it ends at once
}

// complete reports whether a first step is the answer, and not a CNAME record to be followed.
func complete(r *request, first result) bool {
	return first.next == "" || r.Qtype == dns.TypeCNAME || r.Qtype == dns.TypeANY
}

// follow answers a question and those about the names that CNAME records lead to.
func (s *Server) follow(ctx context.Context, r *request, q question) result {
	var all result
	for i := range maxChain {
		step, ok := s.local(q)
		if !ok {
			step = s.fromUpstream(ctx, r.key(q.lower))
		}
		if i == 0 {
			all.zone = step.zone
		}
		all.rcode, all.authority = step.rcode, step.authority
		all.answer = append(all.answer, step.answer...)
		all.extra = step.extra
		if step.next == "" || step.rcode != dns.RcodeSuccess {
			if ok && i > 0 && len(step.answer) == 0 {
				all.authority = []dns.RR{s.soa(step.zone)}
			}
			return all
		}
		q.Name, q.lower = step.next, strings.ToLower(step.next)
	}
	return result{rcode: dns.RcodeServerFailure, zone: all.zone}
}

// fromUpstream is a step that upstreams answer.
func (s *Server) fromUpstream(ctx context.Context, k cacheKey) result {
	if len(s.forwarder.upstreams) == 0 {
		return result{} // the client sees the CNAME record
	}
	known := s.remembered(k)
	if known == nil {
		known = s.forwarder.ask(ctx, k)
	}
	out, err := known.result(time.Now())
	if err != nil {
		return result{rcode: dns.RcodeServerFailure}
	}
	return out
}

// packed returns the packet of an answer.
func (s *Server) packed(r *request, out result) response {
	m := &dns.Msg{MsgHdr: dns.MsgHdr{
		Id: r.Id, Response: true, Opcode: r.Opcode, Rcode: out.rcode, Authoritative: out.zone != "", RecursionDesired: r.RecursionDesired,
		CheckingDisabled: r.CheckingDisabled, RecursionAvailable: len(s.forwarder.upstreams) > 0,
	}, Question: r.Msg.Question, Answer: out.answer, Ns: out.authority, Extra: out.extra, Compress: true}
	if out.zone != "" && len(out.answer) == 0 && out.rcode != dns.RcodeServerFailure {
		m.Ns = []dns.RR{s.soa(out.zone)}
	}
	if r.opt != nil {
		opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
		opt.SetUDPSize(MaxUDPSize)
		if r.opt.Do() {
			opt.SetDo()
		}
		m.Extra = append(m.Extra[:len(m.Extra):len(m.Extra)], opt)
	} else {
		m.Rcode = min(m.Rcode, 15) // longer codes need an OPT record
	}
	packet, err := m.Pack()
	if err != nil || len(packet) > max(r.max, dns.MinMsgSize) {
		packet, err = r.shortened(m)
	}
	if err != nil {
		s.Log.Error(err, "could not pack an answer", "name", r.lower)
		return response{}
	}
	s.answered(r, packet)
	return response{packet: packet}
}

// shortened packs an answer that is too long: without additional records if that is enough, and
// otherwise truncated.
func (r *request) shortened(m *dns.Msg) ([]byte, error) {
	var opts []dns.RR
	for _, rr := range m.Extra {
		if rr.Header().Rrtype == dns.TypeOPT {
			opts = append(opts, rr)
		}
	}
	m.Extra = opts
	m.Truncate(max(r.max, dns.MinMsgSize))
	return m.Pack()
}

// patched returns the packet of a remembered answer.
func (s *Server) patched(r *request, known *remembered) []byte {
	packet := known.aged(time.Now())
	length := len(packet)
	if r.opt != nil {
		length += optLength
	}
	if length > r.max {
		out, err := known.result(time.Now())
		if err != nil {
			out = result{rcode: dns.RcodeServerFailure}
		}
		return s.packed(r, out).packet
	}
	binary.BigEndian.PutUint16(packet, r.Id)
	packet[2] &^= 1
	if r.RecursionDesired {
		packet[2] |= 1
	}
	if r.CheckingDisabled {
		packet[3] |= 0x10
	}
	// The question has the letters of the client, whose length is that of the letters in lower case.
	dns.PackDomainName(r.Name, packet, headerLength, nil, false)
	if r.opt != nil {
		packet = append(packet, 0, 0, byte(dns.TypeOPT), MaxUDPSize>>8, MaxUDPSize&0xff, 0, 0, 0, 0, 0, 0)
		if r.opt.Do() {
			packet[len(packet)-4] = 0x80
		}
		binary.BigEndian.PutUint16(packet[10:], binary.BigEndian.Uint16(packet[10:])+1)
	}
	s.answered(r, packet)
	return packet
}

// answered calls the meter of answers.
func (s *Server) answered(r *request, packet []byte) {
	if s.Meters.Answered == nil {
		return
	}
	a := Answer{
		Zone: r.zone, Protocol: "udp", Family: "1", Type: dns.TypeToString[r.Qtype], Rcode: dns.RcodeToString[int(packet[3]&0xf)],
		DNSSEC: r.opt != nil && r.opt.Do(), RequestSize: r.size, ResponseSize: len(packet), Took: time.Since(r.received),
	}
	if r.tcp {
		a.Protocol = "tcp"
	}
	if r.from.Is6() && !r.from.Is4In6() {
		a.Family = "2"
	}
	if a.Type == "" {
		a.Type = "other"
	}
	s.Meters.Answered(a)
}
