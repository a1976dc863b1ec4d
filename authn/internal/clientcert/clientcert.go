// Package clientcert verifies the certificates of TLS clients and caches the results.
//
// Verifying a chain takes about 50 µs of elliptic curve operations, for every request the same. The
// result is cached together with the chain, the roots it was verified with and its period of
// validity. It is not used with other roots or outside that period, so a replaced root or an
// expired certificate ends access at once, on open connections too.
//
// A chain that is refused can be made to take half a second: an unknown client names a hundred
// authorities with keys that are slow to verify with. So a chain has few certificates, and refusals are
// cached too, for a short time.
package clientcert

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// maxRemembered bounds the cached chains, of about 2 KiB each. It exceeds the number of nodes in
// the largest clusters that Kubernetes supports (5,000).
const maxRemembered = 8192

const (
	// maxChain is the largest number of certificates that a client may show.
	maxChain = 8
	// maxRefused bounds the cached refusals, of about 200 bytes each, and refusedFor their age.
	maxRefused = 4096
	refusedFor = 10 * time.Second
)

// Verifier verifies certificates and derives a T from each.
type Verifier[T any] struct {
	roots func() *x509.CertPool
	read  func(*x509.Certificate) (T, error)

	mu sync.RWMutex
	// verified is keyed by the encoded leaf certificate, because crypto/tls decodes a client's
	// certificate again for each connection. mu guards it.
	verified map[string]*verdict[T]
	refused  map[[sha256.Size]byte]refusal // by the hash of the chain; guarded by mu
}

// refusal is the immutable reason to refuse a chain.
type refusal struct {
	roots *x509.CertPool
	until time.Time
	err   error
}

// verdict is the immutable result of verifying a chain.
type verdict[T any] struct {
	chain       [][]byte // encoded
	roots       *x509.CertPool
	from, until time.Time
	value       T
	err         error // of reading
}

// New returns a verifier that trusts the current result of roots; nil means that no certificate is
// trusted. read is called once for each verified certificate. Requests share its result.
func New[T any](roots func() *x509.CertPool, read func(*x509.Certificate) (T, error)) *Verifier[T] {
	return &Verifier[T]{roots: roots, read: read, verified: map[string]*verdict[T]{}, refused: map[[sha256.Size]byte]refusal{}}
}

var errNoRoots = errors.New("no roots to verify it with")

// Verify returns the result of read for the first certificate of chain, which must not be empty, if
// it is a valid client certificate.
func (v *Verifier[T]) Verify(chain []*x509.Certificate) (T, error) {
	roots, now := v.roots(), time.Now()
	if roots == nil {
		// A nil pool would make x509 use the system's roots.
		var none T
		return none, errNoRoots
	}
	v.mu.RLock()
	known := v.verified[string(chain[0].Raw)]
	v.mu.RUnlock()
	if known != nil && known.holds(chain, roots, now) {
		return known.value, known.err
	}
	fresh, err := v.verifyOnce(chain, roots, now)
	if err != nil {
		if known != nil {
			v.forget(known)
		}
		var none T
		return none, err
	}
	v.remember(fresh, now)
	return fresh.value, fresh.err
}

func (k *verdict[T]) holds(chain []*x509.Certificate, roots *x509.CertPool, now time.Time) bool {
	return k.roots == roots && !now.Before(k.from) && !now.After(k.until) &&
		slices.EqualFunc(k.chain, chain, func(raw []byte, c *x509.Certificate) bool { return bytes.Equal(raw, c.Raw) })
}

// leaf returns the key of the verdict in the cache.
func (k *verdict[T]) leaf() string { return string(k.chain[0]) }

// verifyOnce verifies a chain, unless it was refused a moment ago.
func (v *Verifier[T]) verifyOnce(chain []*x509.Certificate, roots *x509.CertPool, now time.Time) (*verdict[T], error) {
	if len(chain) > maxChain {
		return nil, fmt.Errorf("the client shows %d certificates, of at most %d", len(chain), maxChain)
	}
	key := hashOf(chain)
	v.mu.RLock()
	r, ok := v.refused[key]
	v.mu.RUnlock()
	if ok && r.roots == roots && now.Before(r.until) {
		return nil, r.err
	}
	k, err := v.verify(chain, roots, now)
	if err == nil {
		return k, nil
	}
	r = refusal{roots, now.Add(refusedFor), withoutCertificate(err)}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.refused) >= maxRefused {
		clear(v.refused)
	}
	v.refused[key] = r
	return nil, r.err
}

// withoutCertificate returns err without the certificate, which errors of package x509 hold.
func withoutCertificate(err error) error {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) {
		invalid.Cert = nil
		return invalid
	}
	return errors.New(err.Error())
}

func hashOf(chain []*x509.Certificate) [sha256.Size]byte {
	hash := sha256.New()
	for _, c := range chain {
		hash.Write(c.Raw) // each says how long it is
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

func (v *Verifier[T]) verify(chain []*x509.Certificate, roots *x509.CertPool, now time.Time) (*verdict[T], error) {
	options := x509.VerifyOptions{
		Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range chain[1:] {
		options.Intermediates.AddCert(c)
	}
	paths, err := chain[0].Verify(options)
	if err != nil {
		return nil, err
	}
	k := &verdict[T]{roots: roots}
	for _, c := range chain {
		k.chain = append(k.chain, bytes.Clone(c.Raw)) // the original is part of a larger message
	}
	k.from, k.until = span(paths)
	k.value, k.err = v.read(chain[0])
	return k, nil
}

// span returns the longest period in which one of paths is valid. A path is valid while each of its
// certificates is.
func span(paths [][]*x509.Certificate) (from, until time.Time) {
	for _, path := range paths {
		first, last := path[0].NotBefore, path[0].NotAfter
		for _, c := range path[1:] {
			if c.NotBefore.After(first) {
				first = c.NotBefore
			}
			if c.NotAfter.Before(last) {
				last = c.NotAfter
			}
		}
		if last.After(until) {
			from, until = first, last
		}
	}
	return from, until
}

// remember adds k to the cache, and evicts another entry if the cache is full.
func (v *Verifier[T]) remember(k *verdict[T], now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	leaf := k.leaf()
	if _, replaced := v.verified[leaf]; !replaced && len(v.verified) >= maxRemembered {
		v.evict(k.roots, now)
	}
	v.verified[leaf] = k
}

// evict removes an entry that is no longer valid if it finds one quickly, and otherwise any entry.
func (v *Verifier[T]) evict(roots *x509.CertPool, now time.Time) {
	const looks = 16
	n := 0
	for leaf, k := range v.verified {
		if n++; n == looks || k.roots != roots || now.After(k.until) {
			delete(v.verified, leaf)
			return
		}
	}
}

func (v *Verifier[T]) forget(k *verdict[T]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if leaf := k.leaf(); v.verified[leaf] == k {
		delete(v.verified, leaf)
	}
}
