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
// thirty days, lacks a name or has another subject. A file that cannot be read or parsed is an
// error and is never overwritten. Keys have mode 0600.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/planekit/planekit/authn/user"
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
}

// TLS returns the pair for use with crypto/tls.
func (p *Pair) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{p.Certificate.Raw}, PrivateKey: p.Key, Leaf: p.Certificate}
}

// Authority signs certificates and stores them in a directory.
type Authority struct {
	*Pair
	dir string // empty in memory
}

// Open reads the authority from ca.crt and ca.key in dir, or creates dir and both files. The
// certificates of its other methods are in the same directory, as NAME.crt and NAME.key.
// Certificates have mode 0644, keys 0600, and a new directory 0700.
func Open(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	pair, err := keep(dir, "ca", nil, authorityTemplate())
	if err != nil {
		return nil, err
	}
	return &Authority{Pair: pair, dir: dir}, nil
}

// New makes an authority in memory. It stores nothing, so every request for a certificate
// signs a new one.
func New() (*Authority, error) {
	pair, err := sign(nil, authorityTemplate())
	if err != nil {
		return nil, fmt.Errorf("make certificate ca: %w", err)
	}
	return &Authority{Pair: pair}, nil
}

func authorityTemplate() *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: "planekit-ca"},
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
	template := &x509.Certificate{
		Subject:     subject,
		NotAfter:    time.Now().Add(leafLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.issue(name, template)
}

// Client returns the client certificate called name, for a user in groups.
func (a *Authority) Client(name, user string, groups ...string) (*Pair, error) {
	return a.issue(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		NotAfter:    time.Now().Add(leafLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// issue returns the pair called name: from the directory if there is one.
func (a *Authority) issue(name string, template *x509.Certificate) (*Pair, error) {
	if a.dir != "" {
		return keep(a.dir, name, a.Pair, template)
	}
	pair, err := sign(a.Pair, template)
	if err != nil {
		return nil, fmt.Errorf("make certificate %s: %w", name, err)
	}
	return pair, nil
}

// keep returns the pair called name in dir if it satisfies template, or creates it. A nil parent
// means self-signed.
func keep(dir, name string, parent *Pair, template *x509.Certificate) (*Pair, error) {
	certificate, key := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	pair, err := read(certificate, key)
	switch {
	case err == nil && serves(pair.Certificate, parent, template):
		return pair, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	pair, err = sign(parent, template)
	if err != nil {
		return nil, fmt.Errorf("make certificate %s: %w", name, err)
	}
	// Write the key first: a certificate without its key would look complete.
	if err := write(key, pair.KeyPEM, 0o600); err != nil {
		return nil, err
	}
	return pair, write(certificate, pair.CertificatePEM, 0o644)
}

// serves reports whether have is a valid certificate for want.
func serves(have *x509.Certificate, parent *Pair, want *x509.Certificate) bool {
	if time.Now().Add(renewBefore).After(have.NotAfter) || have.Subject.CommonName != want.Subject.CommonName {
		return false
	}
	if parent != nil && have.CheckSignatureFrom(parent.Certificate) != nil {
		return false
	}
	for _, name := range want.DNSNames {
		if !slices.Contains(have.DNSNames, name) {
			return false
		}
	}
	for _, ip := range want.IPAddresses {
		if !slices.ContainsFunc(have.IPAddresses, ip.Equal) {
			return false
		}
	}
	return slices.Equal(have.Subject.Organization, want.Subject.Organization)
}

func sign(parent *Pair, template *x509.Certificate) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
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

func read(certificateFile, keyFile string) (*Pair, error) {
	certificatePEM, err := os.ReadFile(certificateFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificatePEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", certificateFile, keyFile, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: not an ECDSA key", keyFile)
	}
	return &Pair{Certificate: pair.Leaf, Key: key, CertificatePEM: certificatePEM, KeyPEM: keyPEM}, nil
}

// write replaces file atomically, so that a crash leaves the old or the new contents.
func write(file string, data []byte, mode fs.FileMode) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(data)
	err = errors.Join(err, temporary.Chmod(mode), temporary.Close())
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), file)
}
