package pki

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/planekit/planekit/internal/wholefile"
)

// errWrong marks files that can be read, and do not hold a certificate and its key.
var errWrong = errors.New("not a certificate with its key")

// keepAuthority returns the authority in dir, or creates it with key; nil means a new key. An authority
// that is about to expire is renewed with its own key and subject, so that what it has signed stays valid.
func keepAuthority(dir string, template *x509.Certificate, key *ecdsa.PrivateKey) (*Pair, error) {
	have, err := read(dir, "ca")
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !have.Certificate.IsCA:
		return nil, fmt.Errorf("%s: the certificate is not that of an authority", filepath.Join(dir, "ca.crt"))
	case !isDue(have.Certificate):
		return have, nil
	default:
		key, template.Subject, template.RawSubject = have.Key, have.Certificate.Subject, have.Certificate.RawSubject
	}
	made, err := sign(nil, template, key)
	if err != nil {
		return nil, fmt.Errorf("make certificate ca: %w", err)
	}
	return made, made.write(dir, "ca")
}

// keep returns the pair in the directory if it serves, or creates it. Files that a power cut or a copy
// left torn are replaced too: the authority can make them again.
func (o *origin) keep() (*Pair, error) {
	have, err := read(o.authority.dir, o.name)
	switch {
	case err == nil && o.serves(have.Certificate):
		have.origin = o
		return have, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errWrong):
		return nil, err
	}
	made, err := o.sign()
	if err != nil {
		return nil, err
	}
	return made, made.write(o.authority.dir, o.name)
}

// isDue reports whether a certificate is to be renewed: it expires soon, or is of a time that has not
// come, because it was made while the clock was ahead.
func isDue(have *x509.Certificate) bool {
	now := time.Now()
	return now.Add(renewBefore).After(have.NotAfter) || now.Before(have.NotBefore)
}

// serves reports whether have is a valid certificate of the origin.
func (o *origin) serves(have *x509.Certificate) bool {
	want := o.template()
	if isDue(have) || have.Subject.CommonName != want.Subject.CommonName || have.CheckSignatureFrom(o.authority.Certificate) != nil {
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

func paths(dir, name string) (certificate, key string) {
	return filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
}

func read(dir, name string) (*Pair, error) {
	certificateFile, keyFile := paths(dir, name)
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
		return nil, fmt.Errorf("%s, %s: %w: %w", certificateFile, keyFile, errWrong, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: %w: not an ECDSA key", keyFile, errWrong)
	}
	return &Pair{Certificate: pair.Leaf, Key: key, CertificatePEM: certificatePEM, KeyPEM: keyPEM}, nil
}

// write writes the key first: a certificate without its key would look complete.
func (p *Pair) write(dir, name string) error {
	certificate, key := paths(dir, name)
	if err := wholefile.Write(key, p.KeyPEM, 0o600); err != nil {
		return err
	}
	return wholefile.Write(certificate, p.CertificatePEM, 0o644)
}
