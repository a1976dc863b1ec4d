// Package tokencache remembers what another authenticator said of a bearer token,
// for those that are slow to answer: a webhook, an OpenID Connect provider.
//
//	tokens, err := tokencache.New(tokencache.Config{Authenticator: webhook, SuccessTTL: 2 * time.Minute})
//	chain := authn.Chain{certificates, tokens}
//
// Who asks about a token while it is being asked about already waits for that
// answer, so however many requests come with one token, the authenticator behind
// is asked once. It sees a request of its own, which has nothing but the token and
// the audiences of the context (see [authn.WithAudiences]): what it says must
// depend on nothing else. It is not cut off when one who waits gives up, but when
// the last does or after a time-out.
//
// For up to SuccessTTL a token is good after it has been revoked or has expired.
// Refusals are remembered for FailureTTL. That something could not be checked is
// never remembered: [authn.ErrUnchecked], the end of a context and errors of the
// network.
//
// Tokens are not kept, only digests keyed with a random number of this process.
// How much is remembered is bounded, and refusals take no room from what is known.
package tokencache

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/internal/keyed"
	"github.com/planekit/planekit/authn/user"
)

// Config says whom to ask and for how long to remember. Authenticator must be set.
type Config struct {
	// Authenticator is asked about tokens.
	Authenticator authn.Authenticator
	// SuccessTTL is for how long users are remembered; zero is 10 seconds, as in
	// kube-apiserver.
	SuccessTTL time.Duration
	// FailureTTL is for how long it is remembered that a token was refused or
	// nobody's; zero is not at all.
	FailureTTL time.Duration
	// Timeout is how long an answer may take; zero is 30 seconds.
	Timeout time.Duration
	// MaxTokens bounds the users remembered, and the refusals; zero is 32,768, of
	// some 300 bytes each and what the authenticator says of a user.
	MaxTokens int
	// Panicked, if set, is told where the authenticator panicked, which counts as
	// not checked. With what it panicked is not said: it may be a token.
	Panicked func(stack []byte)
}

// Cache is an authn.Authenticator.
type Cache struct {
	config Config
	key    keyed.Key

	mu             sync.RWMutex
	known, refused table                    // guarded by mu
	flights        map[keyed.Digest]*flight // guarded by mu
}

// answer is what an authenticator said.
type answer struct {
	user  *user.Info
	known bool
	err   error
	// matched are the audiences that the authenticator reported, if it did.
	matched  []string
	reported bool
	// annotations are what it had to say beside.
	annotations []authn.Annotation
}

// New returns a cache. It starts nothing.
func New(c Config) (*Cache, error) {
	switch {
	case c.Authenticator == nil:
		return nil, errors.New("tokencache: Authenticator must be set")
	case c.SuccessTTL < 0 || c.FailureTTL < 0 || c.Timeout < 0 || c.MaxTokens < 0:
		return nil, errors.New("tokencache: SuccessTTL, FailureTTL, Timeout and MaxTokens must not be negative")
	}
	if c.SuccessTTL == 0 {
		c.SuccessTTL = 10 * time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.MaxTokens == 0 {
		c.MaxTokens = 32768
	}
	return &Cache{config: c, key: keyed.NewKey(), known: table{}, refused: table{}, flights: map[keyed.Digest]*flight{}}, nil
}

// Authenticate answers from memory, or asks and waits for the answer.
func (c *Cache) Authenticate(r *http.Request) (*user.Info, bool, error) {
	token, ok, err := authn.BearerToken(r)
	if err != nil || !ok {
		return nil, false, err
	}
	audiences, _ := authn.Audiences(r.Context())
	key := c.digest(token, audiences)
	now := time.Now()
	c.mu.RLock()
	a, ok := c.remembered(key, now)
	c.mu.RUnlock()
	if !ok {
		a = c.ask(r.Context(), key, token, audiences, now)
	}
	for _, one := range a.annotations {
		authn.Annotate(r.Context(), one.Key, one.Value)
	}
	if a.known && a.reported {
		authn.ReportMatched(r.Context(), a.matched)
	}
	return a.user, a.known, a.err
}

// digest stands for a token and the audiences it is to be meant for.
func (c *Cache) digest(token string, audiences []string) keyed.Digest {
	if len(audiences) == 0 {
		return c.key.Digest(token)
	}
	return c.key.Digest(append([]string{token}, audiences...)...)
}

// remembered must be called with mu held.
func (c *Cache) remembered(key keyed.Digest, now time.Time) (answer, bool) {
	if a, ok := c.known.get(key, now); ok {
		return a, true
	}
	return c.refused.get(key, now)
}

// remember must be called with mu held.
func (c *Cache) remember(key keyed.Digest, a answer, now time.Time) {
	switch {
	case a.known && a.err == nil:
		delete(c.refused, key)
		c.known.put(key, a, now, c.config.SuccessTTL, c.config.MaxTokens)
	case c.config.FailureTTL > 0 && !unchecked(a.err):
		delete(c.known, key)
		c.refused.put(key, a, now, c.config.FailureTTL, c.config.MaxTokens)
	}
}

// unchecked reports whether err says nothing against the token.
func unchecked(err error) bool {
	var network net.Error // url.Error and context.DeadlineExceeded are, too
	return errors.Is(err, authn.ErrUnchecked) || errors.Is(err, context.Canceled) || errors.As(err, &network)
}
