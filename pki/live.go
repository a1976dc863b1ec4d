package pki

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"
)

// checkEvery is the time between two looks at a certificate in use and at its files.
const checkEvery = 5 * time.Second

// Live is a certificate that is in use for longer than its life. Each use looks at it and its files, at
// most every five seconds:
//
//   - It is renewed thirty days before it expires.
//   - Files that changed are used if they have a valid pair of the same subject and authority. Torn files, and
//     pairs that do not match, change nothing.
//
// Connections that are established stay as they are: only handshakes see another certificate. Failures
// are reported to [Authority.ReportTo] once, and the current certificate stays in use.
type Live struct {
	current atomic.Pointer[Pair]

	mu      sync.Mutex
	checked time.Time // guarded by mu
	said    string    // the last error, or empty; guarded by mu
}

// Live returns the certificate for use in connections, from now on. A pair that no authority issued
// stays as it is.
func (p *Pair) Live() *Live {
	l := &Live{}
	l.current.Store(p)
	return l
}

// Pair returns the pair that is valid now.
func (l *Live) Pair() *Pair {
	// One caller looks, the others go on: a slow disk delays one handshake.
	if l.mu.TryLock() {
		defer l.mu.Unlock()
		if o := l.current.Load().origin; o != nil && !(time.Since(l.checked) < checkEvery) {
			l.checked = time.Now()
			l.refresh(o)
		}
	}
	return l.current.Load()
}

// Certificate returns the certificate of a server. It is a tls.Config.GetCertificate.
func (l *Live) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair := l.Pair().TLS()
	return &pair, nil
}

// ClientCertificate returns the certificate of a client, or an empty one for a server that does not trust
// its authority. It is a tls.Config.GetClientCertificate.
func (l *Live) ClientCertificate(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	pair := l.Pair().TLS()
	if info.SupportsCertificate(&pair) != nil {
		return &tls.Certificate{}, nil
	}
	return &pair, nil
}

// refresh replaces the current pair, or reports why it cannot.
func (l *Live) refresh(o *origin) {
	before := l.current.Load()
	next, err := o.next(before)
	l.current.Store(next)
	text := ""
	if err != nil {
		text = err.Error()
	}
	again := text == l.said
	l.said = text
	if report := o.authority.report.Load(); report != nil && (next != before || err != nil && !again) {
		(*report)(o.name, next.Certificate.NotAfter, err)
	}
}

// next returns the pair to use after current, which may be the same. The pair is good even if there is
// an error, as long as one of the two can be.
func (o *origin) next(current *Pair) (*Pair, error) {
	var wrong error
	if o.authority.dir != "" {
		have, err := read(o.authority.dir, o.name)
		switch {
		case err == nil && bytes.Equal(have.CertificatePEM, current.CertificatePEM):
		case err == nil && o.serves(have.Certificate):
			have.origin = o
			return have, nil
		case err == nil:
			wrong = fmt.Errorf("the certificate %s in the directory is not one that serves", o.name)
		case !errors.Is(err, fs.ErrNotExist):
			wrong = err
		}
	}
	if !isDue(current.Certificate) {
		return current, wrong
	}
	made, err := o.sign()
	if err != nil {
		return current, errors.Join(wrong, err)
	}
	if o.authority.dir != "" {
		err = made.write(o.authority.dir, o.name)
	}
	return made, err
}
