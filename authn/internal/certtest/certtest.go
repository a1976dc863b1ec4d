// Package certtest creates certificates for tests. It panics on errors.
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

// Authority signs certificates. Pool contains only its own certificate.
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

// New returns a self-signed authority that is valid for an hour. The change functions may modify
// the template.
func New(change ...func(*x509.Certificate)) *Authority { return (*Authority)(nil).Under(change...) }

// Under returns an authority that is signed by a.
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

// Issue returns a client certificate that is valid for an hour. The change functions may modify the
// template.
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

// Named returns a subject with only a common name.
func Named(name string) pkix.Name { return pkix.Name{CommonName: name} }

// PEM returns the certificate of a in PEM.
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

// Servers makes Issue return a server certificate.
func Servers(t *x509.Certificate) { t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }

// Lasting makes a certificate valid for d from now.
func Lasting(d time.Duration) func(*x509.Certificate) {
	return func(t *x509.Certificate) { t.NotAfter = time.Now().Add(d) }
}
