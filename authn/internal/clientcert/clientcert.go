// Package clientcert verifies the certificates of TLS clients, and remembers
// what it has verified.
//
// Verifying a chain costs some 50 us of elliptic curves, for every request the
// same. What came out is remembered with the chain it came from, the roots it
// was verified with and the time for which it holds. Under other roots and
// outside that time it counts for nothing, so a replaced root or an expired
// certificate ends access at once, on connections which are open as well.
package clientcert

import (
	"bytes"
	"crypto/x509"
	"errors"
	"slices"
	"sync"
	"time"
)

// maxRemembered bounds the chains remembered, at some 2 KiB each. It is more than
// the nodes of a large cluster (5,000, the most that Kubernetes is made for).
const maxRemembered = 8192

// Verifier verifies certificates and makes a T of each.
type Verifier[T any] struct {
	roots func() *x509.CertPool
	read  func(*x509.Certificate) (T, error)

	mu sync.RWMutex
	// verified is by the encoding of the leaf certificate (guarded by mu): crypto/tls
	// decodes a client's certificate again for each connection.
	verified map[string]*verdict[T]
}

// verdict is what is known of a chain. It does not change.
type verdict[T any] struct {
	chain       [][]byte // encoded
	roots       *x509.CertPool
	from, until time.Time
	value       T
	err         error // of reading
}

// New returns a verifier that believes the roots of the moment, none where they
// are nil. Read is called once for each certificate that has been verified; what
// it returns is shared by requests.
func New[T any](roots func() *x509.CertPool, read func(*x509.Certificate) (T, error)) *Verifier[T] {
	return &Verifier[T]{roots: roots, read: read, verified: map[string]*verdict[T]{}}
}

var errNoRoots = errors.New("no roots to verify it with")

// Verify returns what was read from the first certificate of chain, which is
// not empty, if the others and the roots vouch for it as a client's.
func (v *Verifier[T]) Verify(chain []*x509.Certificate) (T, error) {
	roots, now := v.roots(), time.Now()
	if roots == nil {
		// A nil pool would make x509 believe the authorities of the system.
		var none T
		return none, errNoRoots
	}
	v.mu.RLock()
	known := v.verified[string(chain[0].Raw)]
	v.mu.RUnlock()
	if known != nil && known.holds(chain, roots, now) {
		return known.value, known.err
	}
	fresh, err := v.verify(chain, roots, now)
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

// leaf is what the verdict is remembered under.
func (k *verdict[T]) leaf() string { return string(k.chain[0]) }

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
		k.chain = append(k.chain, bytes.Clone(c.Raw)) // the original is part of a message
	}
	k.from, k.until = span(paths)
	k.value, k.err = v.read(chain[0])
	return k, nil
}

// span is the time for which one of paths holds: that of the one which holds
// longest. A path holds while each of its certificates does.
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

// remember keeps k, and forgets another for it if there is no room.
func (v *Verifier[T]) remember(k *verdict[T], now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	leaf := k.leaf()
	if _, replaced := v.verified[leaf]; !replaced && len(v.verified) >= maxRemembered {
		v.evict(k.roots, now)
	}
	v.verified[leaf] = k
}

// evict forgets a chain that counts for nothing any more, if one is found
// quickly, or else just any.
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
