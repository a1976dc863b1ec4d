// Package tokencache caches the answers of a slow authenticator about bearer tokens, such as a
// webhook or an OpenID Connect provider.
//
//	tokens, err := tokencache.New(tokencache.Config{Authenticator: webhook, SuccessTTL: 2 * time.Minute})
//	chain := authn.Chain{certificates, tokens}
//
// Concurrent requests with one token share one call of the authenticator. It gets a request of its
// own with only the token and the audiences of the context (see [authn.WithAudiences]), so its
// answer must not depend on anything else. The call ends when the last waiting caller gives up or
// after a timeout.
//
// A token is accepted for up to SuccessTTL after it was revoked or has expired. Refusals are cached
// for FailureTTL. Failed checks are never cached: [authn.ErrUnchecked], context errors and network
// errors.
//
// Tokens are not kept, only digests that are keyed with a random number of this process. The size
// is bounded, and refusals do not evict users.
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

// Config configures a Cache. Authenticator is required.
type Config struct {
	// Authenticator is asked about tokens.
	Authenticator authn.Authenticator
	// SuccessTTL is how long users are cached; zero means 10 seconds, as in kube-apiserver.
	SuccessTTL time.Duration
	// FailureTTL is how long refusals and unknown tokens are cached; zero means not at all.
	FailureTTL time.Duration
	// Timeout bounds a call of the authenticator; zero means 30 seconds.
	Timeout time.Duration
	// MaxTokens bounds the cached users, and the refusals. Zero means 32,768, of about 300 bytes
	// each plus the user.
	//
	MaxTokens int
	// Panicked, if set, is called with the stack when the authenticator panics, which counts as a
	// failed check. It does not get the value of the panic, which may contain a token.
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

// answer is the answer of an authenticator.
type answer struct {
	user  *user.Info
	known bool
	err   error
	// matched are the audiences that the authenticator has reported.
	matched  []string
	reported bool
	// annotations are the annotations that it has added.
	annotations []authn.Annotation
}

// New returns a cache. It starts no goroutine.
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

// Authenticate returns a cached answer, or waits for one.
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

// digest identifies a token and the audiences that it must be meant for.
func (c *Cache) digest(token string, audiences []string) keyed.Digest {
	if len(audiences) == 0 {
		return c.key.Digest(token)
	}
	return c.key.Digest(append([]string{token}, audiences...)...)
}

// remembered returns a cached answer. The caller holds mu.
func (c *Cache) remembered(key keyed.Digest, now time.Time) (answer, bool) {
	if a, ok := c.known.get(key, now); ok {
		return a, true
	}
	return c.refused.get(key, now)
}

// remember caches an answer. The caller holds mu.
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

// unchecked reports whether err means that the token could not be checked.
func unchecked(err error) bool {
	var network net.Error // includes url.Error and context.DeadlineExceeded
	return errors.Is(err, authn.ErrUnchecked) || errors.Is(err, context.Canceled) || errors.As(err, &network)
}
