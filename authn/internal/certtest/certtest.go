// Package certtest makes certificates for tests. What goes wrong panics.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"
)

// Authority signs certificates. Pool has it alone.
type Authority struct {
	Certificate *x509.Certificate
	Pool        *x509.CertPool
	key         *ecdsa.PrivateKey
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// New returns an authority that vouches for itself, for an hour. Change may
// change it.
func New(change ...func(*x509.Certificate)) *Authority { return (*Authority)(nil).Under(change...) }

// Under returns an authority that a vouches for.
func (a *Authority) Under(change ...func(*x509.Certificate)) *Authority {
	lower := &Authority{key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), Pool: x509.NewCertPool()}
	t := template(pkix.Name{CommonName: "ca"})
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage, t.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
	for _, c := range change {
		c(t)
	}
	parent, key := t, lower.key
	if a != nil {
		parent, key = a.Certificate, a.key
	}
	lower.Certificate = must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, t, parent, lower.key.Public(), key))))
	lower.Pool.AddCert(lower.Certificate)
	return lower
}

// Issue returns a certificate for clients, good for one hour. Change may change it.
func (a *Authority) Issue(subject pkix.Name, change ...func(*x509.Certificate)) tls.Certificate {
	t := template(subject)
	for _, c := range change {
		c(t)
	}
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	der := must(x509.CreateCertificate(rand.Reader, t, a.Certificate, key.Public(), a.key))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: must(x509.ParseCertificate(der))}
}

// Client returns a certificate of a client called name.
func (a *Authority) Client(name string) *x509.Certificate {
	return a.Issue(Named(name)).Leaf
}

// Named is a subject that has a common name alone.
func Named(name string) pkix.Name { return pkix.Name{CommonName: name} }

// PEM returns the certificate of a as files have it.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate.Raw})
}

func template(subject pkix.Name) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// Servers makes Issue return a certificate for servers.
func Servers(t *x509.Certificate) { t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }

// Lasting makes a certificate good for d from now.
func Lasting(d time.Duration) func(*x509.Certificate) {
	return func(t *x509.Certificate) { t.NotAfter = time.Now().Add(d) }
}
