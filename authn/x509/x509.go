// Package x509 authenticates users by the certificate of their TLS connection, like kube-apiserver:
// the common name is the user, the organizations are the groups.
//
//	certificates, err := x509.New(x509.Config{Roots: pool})
//	chain := authn.Chain{certificates}
//
// The listener must request certificates (tls.RequestClientCert or tls.VerifyClientCertIfGiven).
// Each request is checked with the current time and roots, for client authentication, so that an
// expired certificate or a removed root ends access on open connections. The result of verifying a
// chain is cached while it is valid and the roots stay the same, so that later requests need no
// cryptography.
//
// A connection without a certificate is not mine. A certificate that cannot be verified, is not for
// clients, or has no common name is refused. Revocation lists are not used.
//
// Roots that follow a file come from package reload:
//
//	roots, err := reload.New(reload.Config[*stdx509.CertPool]{
//		Read:  func() ([]byte, error) { return os.ReadFile(clientCAFile) },
//		Parse: x509.ParseRoots,
//	})
//	certificates, err := x509.New(x509.Config{CurrentRoots: roots.Current})
//	go roots.Run(ctx)
package x509

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	"github.com/planekit/planekit/authn/internal/clientcert"
	"github.com/planekit/planekit/authn/user"
)

// Config configures an Authenticator. Exactly one field is required.
type Config struct {
	// Roots are the authorities that sign client certificates. They must not change.
	Roots *x509.CertPool
	// CurrentRoots returns the current authorities, for roots that are replaced while the server
	// runs. It is called for every request, must be safe for concurrent use, and must return the
	// same pool as long as nothing changes, because certificates are verified again with another
	// pool. If it returns nil, no certificate is trusted.
	//
	CurrentRoots func() *x509.CertPool
}

// Authenticator is an authn.Authenticator.
type Authenticator struct {
	verifier *clientcert.Verifier[*user.Info]
}

// New returns an authenticator.
func New(c Config) (*Authenticator, error) {
	switch {
	case c.Roots != nil && c.CurrentRoots != nil:
		return nil, errors.New("x509: both Roots and CurrentRoots are set")
	case c.Roots == nil && c.CurrentRoots == nil:
		return nil, errors.New("x509: no roots")
	case c.Roots != nil:
		c.CurrentRoots = func() *x509.CertPool { return c.Roots }
	}
	return &Authenticator{clientcert.New(c.CurrentRoots, subject)}, nil
}

// Authenticate verifies the client's certificate and reads the user from it.
func (a *Authenticator) Authenticate(r *http.Request) (*user.Info, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	u, err := a.verifier.Verify(r.TLS.PeerCertificates)
	if err != nil {
		leaf := r.TLS.PeerCertificates[0]
		return nil, false, fmt.Errorf("verifying certificate SN=%d, SKID=%s, AKID=%s failed: %w",
			leaf.SerialNumber, colons(leaf.SubjectKeyId), colons(leaf.AuthorityKeyId), err)
	}
	return u, true, nil
}
