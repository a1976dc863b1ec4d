package x509_test

import (
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/authn/internal/certtest"
	clientcerts "github.com/planekit/planekit/authn/x509"
)

// uid is a part of a subject that says a UID.
func uid(value any) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}, Value: value}
}

func TestSubject(t *testing.T) {
	ca := certtest.New()
	a := must(clientcerts.New(clientcerts.Config{Roots: ca.Pool}))
	for name, test := range map[string]struct {
		extra []pkix.AttributeTypeAndValue
		uid   string
		bad   bool
	}{
		"none":  {},
		"one":   {extra: []pkix.AttributeTypeAndValue{uid("17")}, uid: "17"},
		"two":   {extra: []pkix.AttributeTypeAndValue{uid("17"), uid("17")}, bad: true},
		"empty": {extra: []pkix.AttributeTypeAndValue{uid("")}, bad: true},
	} {
		leaf := ca.Issue(pkix.Name{CommonName: "jane", Organization: []string{"dev"}, ExtraNames: test.extra}).Leaf
		u, known, err := a.Authenticate(request(leaf))
		if known == test.bad || (err != nil) != test.bad {
			t.Errorf("%s: known %v, error %v", name, known, err)
			continue
		}
		if test.bad {
			continue
		}
		hash := sha256.Sum256(leaf.Raw)
		id := []string{"X509SHA256=" + hex.EncodeToString(hash[:])}
		if u.UID != test.uid || len(u.Extra) != 1 || !slices.Equal(u.Extra["authentication.kubernetes.io/credential-id"], id) {
			t.Errorf("%s: Authenticate = %+v, want UID %q and the credential-id %q alone as extra", name, u, test.uid, id)
		}
	}
}

func TestRefusalNamesTheCertificate(t *testing.T) {
	ca := certtest.New()
	a := must(clientcerts.New(clientcerts.Config{Roots: certtest.New().Pool}))
	leaf := ca.Issue(pkix.Name{CommonName: "jane"}, func(t *x509.Certificate) { t.SubjectKeyId = []byte{0x0a, 0xff} }).Leaf
	_, _, err := a.Authenticate(request(leaf))
	if err == nil || !strings.HasPrefix(err.Error(), "verifying certificate SN="+leaf.SerialNumber.String()+", SKID=0A:FF, AKID=") ||
		!strings.Contains(err.Error(), " failed: x509: certificate signed by unknown authority") {
		t.Errorf("Authenticate has the error %v, want one with SN=%s, SKID=0A:FF, AKID and an unknown authority", err, leaf.SerialNumber)
	}
}

// FuzzSubject shows that whatever a certificate calls its holder, the user has
// exactly that name and those groups, and a certificate without a name is refused.
func FuzzSubject(f *testing.F) {
	ca := certtest.New()
	f.Add("jane", "dev", "ops", "17")
	f.Add("", "system:masters", "", "")
	f.Add("system:node:a\x00b", ",", "\xff", "*")
	f.Add("CN=root,O=system:masters", "a+O=b", "a/b", " ")
	f.Fuzz(func(t *testing.T, name, group, other, id string) {
		subject := pkix.Name{CommonName: name, Organization: []string{group, other}}
		if id != "" {
			subject.ExtraNames = []pkix.AttributeTypeAndValue{uid(id)}
		}
		// The authority may sign only what can be written down; then it is read back.
		var leaf *x509.Certificate
		func() {
			defer func() { recover() }()
			leaf = ca.Issue(subject).Leaf
		}()
		if leaf == nil {
			return
		}
		u, known, err := must(clientcerts.New(clientcerts.Config{Roots: ca.Pool})).Authenticate(request(leaf))
		groups := []string{group, other}
		if known { // what stands in one set has no order
			slices.Sort(groups)
			slices.Sort(u.Groups)
		}
		switch {
		case known != (err == nil) || known != (name != ""):
			t.Errorf("%q: known %v, error %v", name, known, err)
		case known && (u.Name != name || !slices.Equal(u.Groups, groups) || u.UID != id):
			t.Errorf("%q of %q, %q with UID %q is %+v", name, group, other, id, u)
		}
	})
}
