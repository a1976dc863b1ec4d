package dns

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Times of upstreams.
const (
	// restPeriod is how long an upstream that did not answer is asked after the others.
	restPeriod = 5 * time.Second
	// attemptTimeout ends an exchange over UDP; a packet may be lost.
	attemptTimeout = 2 * time.Second
	// probePeriod is the least time between two looks for a loop.
	probePeriod = time.Minute
)

// condition is how an upstream is.
type condition uint8

const (
	answers condition = iota
	silent            // it did not answer last
	loops             // it leads back to this server
)

// upstream is a resolver.
type upstream struct {
	netip.AddrPort
	// probe is the name whose question must not come back.
	probe string

	mu sync.Mutex
	// The fields below are guarded by mu.
	restUntil time.Time
	looped    bool
}

func newUpstream(a netip.AddrPort) *upstream {
	return &upstream{AddrPort: a, probe: fmt.Sprintf("%d.%d.", rand.Uint64(), rand.Uint64())}
}

func (u *upstream) state(now time.Time) condition {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.looped:
		return loops
	case now.Before(u.restUntil):
		return silent
	}
	return answers
}

func (u *upstream) failed(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.restUntil = now.Add(restPeriod)
}

func (u *upstream) answered() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.restUntil = time.Time{}
}

// setLooped notes whether the upstream leads back, and reports whether it changed.
func (u *upstream) setLooped(looped bool) (changed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	changed, u.looped = u.looped != looped, looped
	return changed
}

// isProbe reports whether a question is one that this server sent to find loops, and notes the loop.
func (s *Server) isProbe(q question) bool {
	if q.Qtype != dns.TypeHINFO {
		return false
	}
	for _, u := range s.forwarder.upstreams {
		if u.probe == q.lower {
			if u.setLooped(true) {
				s.Log.Info("an upstream leads back to this server and is not asked", "upstream", u.AddrPort.String())
			}
			return true
		}
	}
	return false
}

// probe looks for loops until ctx ends: at the start, and then every probePeriod at upstreams that do not
// answer or that looped before.
func (s *Server) probe(ctx context.Context) {
	next := time.NewTicker(probePeriod)
	defer next.Stop()
	for first := true; ; first = false {
		for _, u := range s.forwarder.upstreams {
			state := u.state(time.Now())
			if !first && state == answers {
				continue
			}
			if state == loops {
				u.setLooped(false) // the question says if it still does
			}
			m := new(dns.Msg).SetQuestion(u.probe, dns.TypeHINFO)
			// The answer does not matter: a question that comes back does.
			s.forwarder.exchange(ctx, m, u.AddrPort)
		}
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
	}
}

// overNetwork asks a resolver over UDP and, if the answer is truncated or not to this very question, over TCP. Each exchange has
// a socket of its own, and so a random port. Beside the ID, a false answer over UDP must have guessed the port and the random letters
// of the name.
func overNetwork(ctx context.Context, m *dns.Msg, to netip.AddrPort) (*dns.Msg, error) {
	attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	c := dns.Client{Net: "udp", UDPSize: dns.MaxMsgSize}
	asked := *m
	asked.Question = []dns.Question{m.Question[0]}
	asked.Question[0].Name = randomCase(m.Question[0].Name)
	a, _, err := c.ExchangeContext(attempt, &asked, to.String())
	if err == nil && a.Response && !a.Truncated && len(a.Question) == 1 && a.Question[0] == asked.Question[0] {
		return a, nil
	}
	if err != nil && a == nil {
		return nil, err
	}
	c.Net = "tcp"
	a, _, err = c.ExchangeContext(ctx, m, to.String())
	return a, err
}

// randomCase returns a name with letters of random case, which resolvers send back as they are.
func randomCase(name string) string {
	letters := []byte(name)
	for i, c := range letters {
		if (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') && rand.IntN(2) == 1 {
			letters[i] = c ^ 0x20
		}
	}
	return string(letters)
}
