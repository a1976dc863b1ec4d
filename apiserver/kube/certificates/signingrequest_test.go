package certificates_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube/certificates"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/pki"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// newRequest returns a request for the certificate of jane.
func newRequest(t testing.TB, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: "example.com/ca",
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}
}

func approved(status corev1.ConditionStatus) certificatesv1.CertificateSigningRequestCondition {
	return certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: status}
}

// subresource returns the strategy of a subresource.
func subresource(t *testing.T, name string) apiserver.Strategy {
	t.Helper()
	for _, s := range certificates.CertificateSigningRequests().Subresources {
		if s.SubresourceName() == name {
			return s.(apiserver.Status).Strategy
		}
	}
	t.Fatalf("no subresource %s", name)
	return apiserver.Strategy{}
}

// update changes a copy of old through a subresource, or the object itself, and returns it with the
// problems of the change.
func update(t *testing.T, name string, old *certificatesv1.CertificateSigningRequest, change func(*certificatesv1.CertificateSigningRequest)) (*certificatesv1.CertificateSigningRequest, field.ErrorList) {
	t.Helper()
	strategy := certificates.CertificateSigningRequests().Strategy
	if name != "" {
		strategy = subresource(t, name)
	}
	changed := old.DeepCopy()
	change(changed)
	strategy.PrepareForUpdate(t.Context(), changed, old)
	return changed, strategy.ValidateUpdate(t.Context(), changed, old)
}

// TestApproval: only the subresource approval adds a decision, nothing removes one, and only the
// status gets a certificate, once.
func TestApproval(t *testing.T) {
	type csr = certificatesv1.CertificateSigningRequest
	pair, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	approve := func(r *csr) { r.Status.Conditions = append(r.Status.Conditions, approved(corev1.ConditionTrue)) }
	pending := newRequest(t, "a")
	done, problems := update(t, "approval", pending, approve)
	if len(problems) > 0 || done.Status.Conditions[0].LastUpdateTime.IsZero() || done.Status.Conditions[0].LastTransitionTime.IsZero() {
		t.Fatalf("an update of approval has the problems %v and makes %+v, want none and both times of the condition", problems, done.Status)
	}
	if _, problems := update(t, "status", pending, approve); len(problems) != 1 || !strings.Contains(problems[0].Error(), `updates may not add a condition of type "Approved"`) {
		t.Error(problems)
	}
	if kept, problems := update(t, "", pending, approve); len(problems) > 0 || len(kept.Status.Conditions) > 0 {
		t.Errorf("an update that approves has the problems %v and makes %+v, want none and no conditions", problems, kept.Status)
	}
	remove := func(r *csr) { r.Status.Conditions = nil }
	for _, name := range []string{"approval", "status"} {
		if _, problems := update(t, name, done, remove); len(problems) != 1 || !strings.Contains(problems[0].Error(), `updates may not remove a condition of type "Approved"`) {
			t.Error(name, problems)
		}
	}
	change := func(r *csr) { r.Status.Conditions[0].Message = "by status" }
	if kept, problems := update(t, "status", done, change); len(problems) > 0 || kept.Status.Conditions[0].Message != "" {
		t.Errorf("an update of status with a message has the problems %v and makes %+v, want none and no message", problems, kept.Status)
	}
	deny := func(r *csr) {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue})
	}
	if _, problems := update(t, "approval", done, deny); len(problems) != 1 || !strings.Contains(problems[0].Error(), "mutually exclusive") {
		t.Error(problems)
	}
	issue := func(r *csr) { r.Status.Certificate = pair.CertificatePEM }
	if kept, problems := update(t, "approval", done, issue); len(problems) > 0 || len(kept.Status.Certificate) > 0 {
		t.Errorf("an update of approval with a certificate has the problems %v and makes %+v, want none and no certificate",
			problems, kept.Status)
	}
	issued, problems := update(t, "status", done, issue)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	replace := func(r *csr) { r.Status.Certificate = append([]byte("a comment\n"), pair.CertificatePEM...) }
	if _, problems := update(t, "status", issued, replace); len(problems) != 1 || problems[0].Error() != "status.certificate: Forbidden: updates may not modify existing certificate content" {
		t.Error(problems)
	}
}

// TestRequestor: the user of the request replaces what the object says about its user.
func TestRequestor(t *testing.T) {
	r := newRequest(t, "a")
	r.Spec.Username, r.Spec.UID, r.Spec.Groups = "root", "0", []string{"system:masters"}
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{approved(corev1.ConditionTrue)}
	jane := &user.Info{Name: "jane", UID: "7", Groups: []string{"makers"}, Extra: map[string][]string{"scopes": {"a"}}}
	certificates.CertificateSigningRequests().Strategy.PrepareForCreate(user.NewContext(t.Context(), jane), r)
	s := r.Spec
	if s.Username != "jane" || s.UID != "7" || !slices.Equal(s.Groups, jane.Groups) || fmt.Sprint(s.Extra) != "map[scopes:[a]]" || len(r.Status.Conditions) > 0 {
		t.Errorf("PrepareForCreate for %+v makes %+v, want that user and no conditions", jane, r)
	}
}

// TestRequestServed approves a request of any name through a server and selects it by its signer.
func TestRequestServed(t *testing.T) {
	s := apiservertest.Start(t, apiservertest.WithResources(certificates.Resources()...))
	api, err := client.New(client.Config{Server: s.URL, Transport: s.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	requests := typed.CertificateSigningRequests(api)
	for _, signer := range []string{"example.com/ca", "example.com/other"} {
		r := newRequest(t, "system:node:"+signer[12:])
		r.Spec.SignerName = signer
		if _, err := requests.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	list, _, err := requests.List(t.Context(), "", metav1.ListOptions{FieldSelector: "spec.signerName=example.com/ca"})
	if err != nil || len(list) != 1 || list[0].Name != "system:node:ca" || list[0].Spec.Username == "" {
		t.Fatalf("List of spec.signerName=example.com/ca = %+v, %v, want system:node:ca alone, with a user name", list, err)
	}
	decided, err := requests.Patch(t.Context(), "", "system:node:ca", types.MergePatchType,
		[]byte(`{"spec":{"signerName":"example.com/x"},"status":{"conditions":[{"type":"Approved","status":"True","reason":"Test"}]}}`), "approval")
	if err != nil || len(decided.Status.Conditions) != 1 || decided.Spec.SignerName != "example.com/ca" {
		t.Errorf("Patch of approval = %+v, %v, want one condition and the signer example.com/ca", decided, err)
	}
}

// FuzzRequest: what is accepted holds a request that its key signed.
func FuzzRequest(f *testing.F) {
	r := newRequest(f, "a")
	f.Add(r.Spec.Request)
	f.Add(append([]byte("text\n"), r.Spec.Request...))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n"))
	validate := certificates.CertificateSigningRequests().Strategy.Validate
	f.Fuzz(func(t *testing.T, data []byte) {
		changed := r.DeepCopy()
		changed.Spec.Request = data
		if len(validate(t.Context(), changed)) > 0 {
			return
		}
		block, _ := pem.Decode(data)
		if block == nil {
			t.Fatalf("%q is accepted without a block", data)
		}
		parsed, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil || parsed.CheckSignature() != nil {
			t.Fatalf("%q is accepted: %v", data, err)
		}
	})
}

// hugeRequest returns a request with an RSA key of a number of bits, which nothing signed.
func hugeRequest(t *testing.T, bits int) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	// The outer structure of PKCS #10 (RFC 2986), with another key and signature.
	var outer struct {
		Info struct {
			Version    int
			Subject    asn1.RawValue
			Key        asn1.RawValue
			Attributes asn1.RawValue
		}
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	if _, err := asn1.Unmarshal(small, &outer); err != nil {
		t.Fatal(err)
	}
	modulus := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(bits)), big.NewInt(1))
	public, err := x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: modulus, E: 1<<31 - 1})
	if err != nil {
		t.Fatal(err)
	}
	outer.Info.Key = asn1.RawValue{FullBytes: public}
	outer.Algorithm = pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, Parameters: asn1.NullRawValue} // SHA-256 with RSA
	outer.Signature = asn1.BitString{Bytes: append([]byte{0}, bytes.Repeat([]byte{0xa5}, bits/8-1)...), BitLength: bits}
	der, err := asn1.Marshal(outer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// TestHugeKeys: a request of a few kilobytes does not take seconds of the processor.
func TestHugeKeys(t *testing.T) {
	r := newRequest(t, "a")
	for bits, want := range map[int]string{8192: "verification error", 8200: "the RSA key has 8200 bits, of at most 8192", 65536: "of at most 8192"} {
		r.Spec.Request = hugeRequest(t, bits)
		problems := certificates.CertificateSigningRequests().Strategy.Validate(t.Context(), r)
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("Validate of a key of %d bits = %.300v, want %q", bits, problems.ToAggregate(), want)
		}
	}
}
