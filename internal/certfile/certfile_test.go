package certfile_test

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/internal/certfile"
	"github.com/planekit/planekit/pki"
)

// TestRefresh: a value changes with its files only, and is one object until then.
func TestRefresh(t *testing.T) {
	authority, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "both.pem")
	write := func() string {
		pair, err := authority.Client("c", "jane")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(pair.CertificatePEM, pair.KeyPEM...), 0o600); err != nil {
			t.Fatal(err)
		}
		return pair.Certificate.SerialNumber.String()
	}
	first := write()
	v, err := certfile.Pair(file, file) // both in one file
	if err != nil || v.Current().Leaf.SerialNumber.String() != first {
		t.Fatal(err)
	}
	before := v.Current()
	if changed, err := v.Refresh(); changed || err != nil || v.Current() != before {
		t.Errorf("changed %v (%v) without a change", changed, err)
	}
	second := write()
	if changed, err := v.Refresh(); !changed || err != nil || v.Current().Leaf.SerialNumber.String() != second {
		t.Errorf("changed %v (%v) with a change", changed, err)
	}
	if err := os.Truncate(file, 100); err != nil {
		t.Fatal(err)
	}
	before = v.Current()
	if changed, err := v.Refresh(); changed || err == nil || v.Current() != before {
		t.Errorf("changed %v (%v) with half a file", changed, err)
	}
}

// FuzzParse: what is accepted is complete, so that no part of it is accepted in its place.
func FuzzParse(f *testing.F) {
	authority, err := pki.New()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(authority.CertificatePEM, authority.KeyPEM)
	f.Add(append(authority.CertificatePEM[:50:50], authority.CertificatePEM...), authority.KeyPEM)
	f.Fuzz(func(t *testing.T, certificate, key []byte) {
		if pair, err := certfile.ParsePair(certificate, key); err == nil && (pair.Leaf == nil || pair.PrivateKey == nil) {
			t.Error("a pair without its parts")
		}
		pool, err := certfile.ParseAuthorities(certificate)
		if err != nil {
			return
		}
		if pool.Equal(x509.NewCertPool()) {
			t.Error("an empty pool")
		}
		cut := bytes.LastIndex(certificate, []byte("-----END"))
		if _, err := certfile.ParseAuthorities(certificate[:cut]); err == nil {
			t.Errorf("%q is accepted without its end", certificate)
		}
	})
}
