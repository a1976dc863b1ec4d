package dns

import (
	"net/netip"
	"time"
)

// Meters are called with measurements, also by several goroutines at once. Functions that are nil are
// not called. Package metrics has those of Prometheus.
type Meters struct {
	// Answered is called after each answer.
	Answered func(Answer)
	// Cached is called for each question about another name with whether the answer was remembered,
	// and whether it is negative.
	Cached func(hit, denial bool)
	// Stored is called after a change of the cache with the numbers of its answers and negative ones, and
	// the number of those that had to leave for the new one.
	Stored func(successes, denials, evicted int)
	// Forwarded is called after each exchange with an upstream. The rcode is empty if there was none.
	Forwarded func(upstream netip.AddrPort, rcode string, took time.Duration)
	// Rejected is called for a question that was not forwarded because too many wait.
	Rejected func()
	// Refused is called for a connection that was closed because there are too many.
	Refused func()
	// Programmed is called for each slice of a headless service that is in the index, with the time since
	// the change of the pod.
	Programmed func(took time.Duration)
}

// Answer describes an answer that was sent.
type Answer struct {
	// Zone is the zone of this server that the question belongs to; "." for other names.
	Zone string
	// Protocol is udp or tcp; Family is 1 for IPv4 and 2 for IPv6.
	Protocol, Family string
	// Type and Rcode are the type of the question and the code of the answer, in letters.
	Type, Rcode string
	// DNSSEC means that the client asked for signatures.
	DNSSEC bool
	// RequestSize and ResponseSize are in bytes.
	RequestSize, ResponseSize int
	Took                      time.Duration
}

func (m Meters) cached(hit, denial bool) {
	if m.Cached != nil {
		m.Cached(hit, denial)
	}
}

func (m Meters) stored(successes, denials, evicted int) {
	if m.Stored != nil {
		m.Stored(successes, denials, evicted)
	}
}

func (m Meters) forwarded(upstream netip.AddrPort, rcode string, took time.Duration) {
	if m.Forwarded != nil {
		m.Forwarded(upstream, rcode, took)
	}
}

func (m Meters) rejected() {
	if m.Rejected != nil {
		m.Rejected()
	}
}

func (m Meters) refused() {
	if m.Refused != nil {
		m.Refused()
	}
}
