package pki_test

import (
	"crypto/x509"
	"testing"

	"github.com/planekit/planekit/pki"
)

// TestAuthorityInMemory issues certificates that only its own pool verifies.
func TestAuthorityInMemory(t *testing.T) {
	one, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	serving, err := one.Serving("apiserver", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	client, err := one.Client("admin", "jane", "makers")
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range []*pki.Pair{serving, client} {
		options := x509.VerifyOptions{Roots: one.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
		if _, err := pair.Certificate.Verify(options); err != nil {
			t.Error(err)
		}
		options.Roots = other.Pool()
		if _, err := pair.Certificate.Verify(options); err == nil {
			t.Errorf("%s is verified by another authority", pair.Certificate.Subject)
		}
	}
	if s := client.Certificate.Subject; s.CommonName != "jane" || len(s.Organization) != 1 || s.Organization[0] != "makers" {
		t.Errorf("the client is %s", s)
	}
	if again, err := one.Client("admin", "jane", "makers"); err != nil || again.Key.Equal(client.Key) {
		t.Errorf("the same key again: %v", err)
	}
}
