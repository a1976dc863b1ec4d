// Package x509 knows users by the certificate of their TLS connection, the way
// kube-apiserver does: the common name is the user, the organizations are the
// groups.
//
//	certificates, err := x509.New(x509.Config{Roots: pool})
//	chain := authn.Chain{certificates}
//
// The listener must ask for certificates (tls.RequestClientCert or
// tls.VerifyClientCertIfGiven). Each request verifies the chain again, against
// the roots of that moment and for client authentication, so an expired
// certificate or a removed root ends access on connections which are open.
//
// A connection without a certificate is not mine. A certificate that cannot be
// verified, is not meant for clients, or has no common name is refused.
// Revocation lists are not consulted.
package x509

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/planekit/planekit/authn/user"
)

// Config says which certificates are believed. Exactly one field must be set.
type Config struct {
	// Roots are the authorities that sign client certificates.
	Roots *x509.CertPool
	// CurrentRoots returns the authorities as of now, for roots that are
	// replaced while the server runs. It is called for every request and must be
	// safe for concurrent use. When it returns nil, nobody is believed.
	CurrentRoots func() *x509.CertPool
}

// Authenticator is an authn.Authenticator.
type Authenticator struct {
	roots func() *x509.CertPool
}

// New returns an authenticator.
func New(c Config) (*Authenticator, error) {
	switch {
	case c.Roots != nil && c.CurrentRoots != nil:
		return nil, errors.New("x509: both Roots and CurrentRoots are set")
	case c.CurrentRoots != nil:
		return &Authenticator{roots: c.CurrentRoots}, nil
	case c.Roots != nil:
		return &Authenticator{roots: func() *x509.CertPool { return c.Roots }}, nil
	}
	return nil, errors.New("x509: no roots")
}

// Authenticate verifies the client's certificate and reads the user from it.
func (a *Authenticator) Authenticate(r *http.Request) (*user.Info, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	leaf := r.TLS.PeerCertificates[0]
	roots := a.roots()
	if roots == nil {
		// A nil pool would make Verify believe the authorities of the system.
		return nil, false, errors.New("client certificate: no roots to verify it with")
	}
	options := x509.VerifyOptions{
		Roots:         roots,
		Intermediates: x509.NewCertPool(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range r.TLS.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(options); err != nil {
		return nil, false, fmt.Errorf("client certificate: %w", err)
	}
	if leaf.Subject.CommonName == "" {
		return nil, false, errors.New("client certificate: no common name")
	}
	return &user.Info{
		Name:   leaf.Subject.CommonName,
		Groups: slices.Clone(leaf.Subject.Organization),
	}, true, nil
}
