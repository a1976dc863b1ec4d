package pki_test

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/pki"
)

func Example() {
	dir, err := os.MkdirTemp("", "pki")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	authority, err := pki.Open(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	admin, err := authority.Client("admin", "kubernetes-admin", "system:masters")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(admin.Certificate.Subject)
	// Output: CN=kubernetes-admin,O=system:masters
}

func TestServingIsVerifiedAndKept(t *testing.T) {
	dir := t.TempDir()
	authority, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	first, err := authority.Serving("apiserver", "127.0.0.1", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"127.0.0.1", "localhost"} {
		if _, err := first.Certificate.Verify(x509.VerifyOptions{Roots: authority.Pool(), DNSName: name}); err != nil {
			t.Errorf("Verify() of the serving certificate for %s: %v", name, err)
		}
	}

	again, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := again.Serving("apiserver", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept.CertificatePEM, first.CertificatePEM) || !bytes.Equal(again.CertificatePEM, authority.CertificatePEM) {
		t.Error("certificates were made anew though the old ones serve")
	}
	other, err := again.Serving("apiserver", "127.0.0.1", "10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(other.CertificatePEM, first.CertificatePEM) {
		t.Error("a certificate without the wanted address was kept")
	}
}

func TestForeignAuthorityIsReplaced(t *testing.T) {
	dir := t.TempDir()
	authority, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	before, err := authority.Client("admin", "a", "g")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	if authority, err = pki.Open(dir); err != nil {
		t.Fatal(err)
	}
	after, err := authority.Client("admin", "a", "g")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(before.CertificatePEM, after.CertificatePEM) {
		t.Error("a certificate of another authority was kept")
	}
}

func TestModesAndBadFiles(t *testing.T) {
	dir := t.TempDir()
	authority, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Client("admin", "a"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.key", "admin.key"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.key"), []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = pki.Open(dir)
	if err == nil || !strings.Contains(err.Error(), "ca.key") {
		t.Errorf("error %v does not name the file", err)
	}
}

func TestKubelet(t *testing.T) {
	authority, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// One of before, which does not name the node as its subject, is replaced.
	if _, err := authority.Serving("kubelet-n", "127.0.0.1", "n"); err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Kubelet("n", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if subject := pair.Certificate.Subject.String(); subject != "CN=system:node:n,O=system:nodes" {
		t.Errorf("subject %s", subject)
	}
	for _, name := range []string{"127.0.0.1", "n"} {
		if _, err := pair.Certificate.Verify(x509.VerifyOptions{Roots: authority.Pool(), DNSName: name}); err != nil {
			t.Errorf("Verify() of the kubelet's certificate for %s: %v", name, err)
		}
	}
	if _, err := pair.Certificate.Verify(x509.VerifyOptions{Roots: authority.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
		t.Error("a serving certificate is good for a client")
	}
	again, err := authority.Kubelet("n", "127.0.0.1")
	if err != nil || !bytes.Equal(again.CertificatePEM, pair.CertificatePEM) {
		t.Errorf("made anew: %v", err)
	}
}
