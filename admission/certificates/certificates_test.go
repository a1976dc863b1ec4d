package certificates_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/certificates"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newRequest returns a request of a signer for a user in groups.
func newRequest(signer string, groups ...string) *certificatesv1.CertificateSigningRequest {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "ann", Organization: groups}}, key)
	if err != nil {
		panic(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: signer, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}
}

// operation returns an operation of ann on a subresource.
func operation(op admission.Operation, subresource string, object, old any) *admission.Request {
	return &admission.Request{
		Operation:   op,
		Resource:    admission.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"},
		Subresource: subresource, Name: "a", User: &user.Info{Name: "ann"}, Object: object, OldObject: old,
	}
}

// granting lets every user have a verb for a signer.
func granting(verb, signer string) authz.Authorizer {
	return authz.Func(func(_ context.Context, at authz.Attributes) (authz.Decision, string, error) {
		if at.Verb == verb && at.Group == "certificates.k8s.io" && at.Resource == "signers" && at.Name == signer {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
}

func Example() {
	plugin, err := certificates.NewApproval(certificates.Config{Authorizer: granting("approve", "example.com/*")})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, signer := range []string{"example.com/ca", "example.org/ca"} {
		r := newRequest(signer)
		fmt.Println(plugin.Validate(context.Background(), operation(admission.Update, "approval", r, r)))
	}
	// Output:
	// <nil>
	// certificatesigningrequests.certificates.k8s.io "a" is forbidden: user not permitted to approve requests with signerName "example.org/ca"
}

func TestSigning(t *testing.T) {
	const refused = `certificatesigningrequests.certificates.k8s.io "a" is forbidden: user not permitted to sign requests with signerName "example.com/ca"`
	old := newRequest("example.com/ca")
	signed := old.DeepCopy()
	signed.Status.Certificate = []byte("certificate")
	failed := old.DeepCopy()
	failed.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateFailed}}
	labelled := old.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	moved := signed.DeepCopy()
	moved.Spec.SignerName = "example.org/ca"
	for name, c := range map[string]struct {
		grant   string
		request *admission.Request
		want    string
	}{
		"a certificate":           {"", operation(admission.Update, "status", signed, old), refused},
		"a condition":             {"", operation(admission.Update, "status", failed, old), refused},
		"neither":                 {"", operation(admission.Update, "status", labelled, old), ""},
		"the right":               {"example.com/ca", operation(admission.Update, "status", signed, old), ""},
		"the right for another":   {"example.org/ca", operation(admission.Update, "status", moved, old), refused},
		"the object itself":       {"", operation(admission.Update, "", signed, old), ""},
		"not the object of a CSR": {"", operation(admission.Update, "status", signed, &metav1.PartialObjectMetadata{}), `certificatesigningrequests.certificates.k8s.io "a" is forbidden: expected type CertificateSigningRequest, got: *v1.PartialObjectMetadata`},
		"not a CSR any more":      {"", operation(admission.Update, "status", &metav1.PartialObjectMetadata{}, old), `certificatesigningrequests.certificates.k8s.io "a" is forbidden: expected type CertificateSigningRequest, got: *v1.PartialObjectMetadata`},
	} {
		plugin, err := certificates.NewSigning(certificates.Config{Authorizer: granting("sign", c.grant)})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, name, plugin.Validate(t.Context(), c.request), c.want)
	}
}

func TestSubjectRestriction(t *testing.T) {
	const refused = `certificatesigningrequests.certificates.k8s.io "a" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed`
	const signer = "kubernetes.io/kube-apiserver-client"
	garbage := newRequest(signer)
	garbage.Spec.Request = []byte("garbage")
	for name, c := range map[string]struct {
		request *admission.Request
		want    string
	}{
		"masters":        {operation(admission.Create, "", newRequest(signer, "makers", "system:masters"), nil), refused},
		"others":         {operation(admission.Create, "", newRequest(signer, "makers"), nil), ""},
		"another signer": {operation(admission.Create, "", newRequest("example.com/ca", "system:masters"), nil), ""},
		"an update":      {operation(admission.Update, "", newRequest(signer, "system:masters"), nil), ""},
		"garbage":        {operation(admission.Create, "", garbage, nil), `certificatesigningrequests.certificates.k8s.io "a" is forbidden: failed to parse CSR: PEM block type must be CERTIFICATE REQUEST`},
		"no request":     {operation(admission.Create, "", nil, nil), `certificatesigningrequests.certificates.k8s.io "a" is forbidden: expected type CertificateSigningRequest, got: <nil>`},
	} {
		expect(t, name, certificates.SubjectRestriction{}.Validate(t.Context(), c.request), c.want)
	}
}

func expect(t *testing.T, name string, err error, want string) {
	t.Helper()
	if have := fmt.Sprint(err); have != want && (err != nil || want != "") {
		t.Errorf("%s: have %s, want %s", name, have, want)
	}
}

func TestConfig(t *testing.T) {
	if _, err := certificates.NewApproval(certificates.Config{}); err == nil {
		t.Error("approval needs no authorizer")
	}
	if _, err := certificates.NewSigning(certificates.Config{}); err == nil {
		t.Error("signing needs no authorizer")
	}
}
