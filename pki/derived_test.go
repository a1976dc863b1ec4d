package pki_test

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/pki"
)

// TestDerived: what a derived authority signs is not trusted by clients of the first one. Two servers with
// the files of the first authority alone trust each other's.
func TestDerived(t *testing.T) {
	one, other := t.TempDir(), t.TempDir()
	first, err := pki.Open(one)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.crt", "ca.key"} {
		data, err := os.ReadFile(filepath.Join(one, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(other, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	second, err := pki.Open(other)
	if err != nil {
		t.Fatal(err)
	}
	mine, err1 := first.Derived("kubelet-serving")
	theirs, err2 := second.Derived("kubelet-serving")
	third, err3 := first.Derived("another")
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	leaf, err := mine.Kubelet("n", "kubernetes.default.svc")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		by   string
		pool *x509.CertPool
		good bool
	}{
		{"itself", mine.Pool(), true},
		{"that of another server", theirs.Pool(), true},
		{"the first authority", first.Pool(), false},
		{"another derived one", third.Pool(), false},
	} {
		_, err := leaf.Certificate.Verify(x509.VerifyOptions{Roots: c.pool, DNSName: "kubernetes.default.svc"})
		if (err == nil) != c.good {
			t.Errorf("Verify by %s = %v, want success: %v", c.by, err, c.good)
		}
	}
	again, err := first.Derived("kubelet-serving")
	if err != nil || !bytes.Equal(again.CertificatePEM, mine.CertificatePEM) {
		t.Errorf("the derived authority changed: %v", err)
	}
}
