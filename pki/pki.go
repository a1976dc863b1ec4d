// Package pki creates and stores the certificates of one cluster: an authority, a serving
// certificate and client certificates, all ECDSA P-256, as PEM files in a directory.
//
//	authority, err := pki.Open(dir)
//	serving, err := authority.Serving("apiserver", "127.0.0.1", "localhost")
//	admin, err := authority.Client("admin", "kubernetes-admin", "system:masters")
//
// [New] creates an authority in memory, for tests and programs that end with their clients.
//
// Valid certificates are reused. A certificate is issued again if it is missing, expires within
// thirty days, lacks a name or has another subject, and if its files are torn or do not match. A file
// that cannot be read is an error. So are wrong files of an authority, which are never overwritten: an
// authority is renewed with the same key. Keys have mode 0600. Files are written whole or not at all,
// also when the machine stops.
//
// A program that runs for longer than a certificate uses it by [Pair.Live], which renews it.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/internal/wholefile"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	// renewBefore is the remaining lifetime below which a certificate is renewed.
	renewBefore = 30 * 24 * time.Hour
	// backdate allows for clocks that are behind.
	backdate = 5 * time.Minute
)

// Pair is a certificate and its key, parsed and as PEM.
type Pair struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey
	// CertificatePEM and KeyPEM are the contents of the files.
	CertificatePEM, KeyPEM []byte

	origin *origin // nil for an authority
}

// origin issues a pair again.
type origin struct {
	authority *Authority
	name      string
	template  func() *x509.Certificate
}

// TLS returns the pair for use with crypto/tls.
func (p *Pair) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{p.Certificate.Raw}, PrivateKey: p.Key, Leaf: p.Certificate}
}

// Authority signs certificates and stores them in a directory.
type Authority struct {
	*Pair
	dir    string // empty in memory
	report atomic.Pointer[Report]
}

// Report receives changes of a certificate in use. It was renewed or read from changed files, and is valid
// until then. With an error that failed, and the current certificate, valid until then, stays in use.
type Report func(name string, until time.Time, err error)

// ReportTo sets what receives reports. It replaces the one before.
func (a *Authority) ReportTo(r Report) { a.report.Store(&r) }

// Open reads the authority from ca.crt and ca.key in dir, or creates dir and both files. The
// certificates of its other methods are in the same directory, as NAME.crt and NAME.key.
// Certificates have mode 0644, keys 0600, and a new directory 0700.
func Open(dir string) (*Authority, error) {
	return open(dir, "planekit-ca", nil)
}

func open(dir, subject string, key *ecdsa.PrivateKey) (*Authority, error) {
	if err := wholefile.Folder(dir, 0o700); err != nil {
		return nil, err
	}
	pair, err := keepAuthority(dir, authorityTemplate(subject), key)
	if err != nil {
		return nil, err
	}
	return &Authority{Pair: pair, dir: dir}, nil
}

// New makes an authority in memory. It stores nothing, so every request for a certificate
// signs a new one.
func New() (*Authority, error) {
	pair, err := sign(nil, authorityTemplate("planekit-ca"), nil)
	if err != nil {
		return nil, fmt.Errorf("make certificate ca: %w", err)
	}
	return &Authority{Pair: pair}, nil
}

func authorityTemplate(subject string) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: subject},
		NotAfter:              time.Now().Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
}

// Pool returns a pool with only the authority's certificate.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Certificate)
	return pool
}

// Serving returns the serving certificate called name, valid for hosts, each a
// DNS name or an IP address.
func (a *Authority) Serving(name string, hosts ...string) (*Pair, error) {
	return a.serving(name, pkix.Name{CommonName: name}, hosts)
}

// Kubelet returns the serving certificate of a node's kubelet, valid for the node's name and for
// hosts. As with Kubernetes' signer kubernetes.io/kubelet-serving, its subject is the user of the
// node.
func (a *Authority) Kubelet(node string, hosts ...string) (*Pair, error) {
	subject := pkix.Name{CommonName: user.NodePrefix + node, Organization: []string{user.Nodes}}
	return a.serving("kubelet-"+node, subject, append([]string{node}, hosts...))
}

func (a *Authority) serving(name string, subject pkix.Name, hosts []string) (*Pair, error) {
	template := leaf(subject, x509.ExtKeyUsageServerAuth)
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.issue(name, template)
}

func leaf(subject pkix.Name, usage x509.ExtKeyUsage) x509.Certificate {
	return x509.Certificate{Subject: subject, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage}}
}

// Client returns the client certificate called name, for a user in groups.
func (a *Authority) Client(name, user string, groups ...string) (*Pair, error) {
	return a.issue(name, leaf(pkix.Name{CommonName: user, Organization: groups}, x509.ExtKeyUsageClientAuth))
}

// issue returns the pair called name: from the directory if there is one.
func (a *Authority) issue(name string, want x509.Certificate) (*Pair, error) {
	from := &origin{a, name, func() *x509.Certificate {
		template := want
		template.NotAfter = time.Now().Add(leafLife)
		return &template
	}}
	if a.dir != "" {
		return from.keep()
	}
	return from.sign()
}

// sign returns a new pair.
func (o *origin) sign() (*Pair, error) {
	pair, err := sign(o.authority.Pair, o.template(), nil)
	if err != nil {
		return nil, fmt.Errorf("make certificate %s: %w", o.name, err)
	}
	pair.origin = o
	return pair, nil
}

// sign signs a certificate for key, or for a new key if that is nil. A nil parent means self-signed.
func sign(parent *Pair, template *x509.Certificate, key *ecdsa.PrivateKey) (_ *Pair, err error) {
	if key == nil {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, err
		}
	}
	template.NotBefore = time.Now().Add(-backdate)
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	issuer, signer := template, key
	if parent != nil {
		issuer, signer = parent.Certificate, parent.Key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &Pair{
		Certificate: certificate, Key: key,
		CertificatePEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyPEM:         pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, nil
}
