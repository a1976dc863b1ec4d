package certificates

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/pki"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestConfig checks that constructors refuse an empty configuration and name what is missing.
func TestConfig(t *testing.T) {
	failure := func(_ any, err error) string { return fmt.Sprint(err) }
	requests := localcache.NewMap[*request]()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for want, got := range map[string]string{
		"certificates: ApproverConfig: no Requests":        failure(NewApprover(ApproverConfig{})),
		"certificates: ServingApproverConfig: no Requests": failure(NewServingApprover(ServingApproverConfig{})),
		"certificates: SignerConfig: no Requests":          failure(NewSigner(SignerConfig{})),
		"certificates: SignerConfig: no CA":                failure(NewSigner(SignerConfig{Requests: requests, Writer: &statuses{}, Key: key})),
		"certificates: CleanerConfig: no Requests":         failure(NewCleaner(CleanerConfig{})),
	} {
		if got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	}
}

// statuses keeps the last status that was written.
type statuses struct{ last *request }

func (s *statuses) UpdateStatus(_ context.Context, r *request) (*request, error) {
	s.last = r
	return r, nil
}

// wish describes what a request asks for.
type wish struct {
	signer   string
	key      crypto.Signer // nil for a new one
	template x509.CertificateRequest
	usages   []certificatesv1.KeyUsage
	seconds  int32
	change   func(*request) // nil for none
}

// sign has a Signer work on an approved request, in a bubble.
func sign(t *testing.T, authority *pki.Authority, w wish) *request {
	t.Helper()
	if w.key == nil {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		w.key = key
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &w.template, w.key)
	if err != nil {
		t.Fatal(err)
	}
	r := &request{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: w.signer, Usages: w.usages,
	}}
	if w.seconds != 0 {
		r.Spec.ExpirationSeconds = &w.seconds
	}
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
	if w.change != nil {
		w.change(r)
	}
	written := &statuses{}
	c, err := NewSigner(SignerConfig{Requests: localcache.NewMap(r), Writer: written, CA: authority.Certificate, Key: authority.Key})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	synctest.Wait()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return written.last
}

// TestCertificate looks at a certificate for every time that a request may want.
func TestCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, err := pki.New()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			seconds int32
			want    time.Duration // from now
		}{
			{0, 365*24*time.Hour - 5*time.Minute},
			{60, 10 * time.Minute},
			{3600, time.Hour},
			{8 * 3600, 8*time.Hour - 5*time.Minute},
			{1<<31 - 1, 365*24*time.Hour - 5*time.Minute},
		} {
			r := sign(t, authority, wish{
				signer: "kubernetes.io/legacy-unknown", seconds: c.seconds,
				template: x509.CertificateRequest{
					Subject: pkix.Name{CommonName: "jane", Organization: []string{"makers"}}, DNSNames: []string{"a.b"}, IPAddresses: []net.IP{{10, 0, 0, 1}},
					ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}}, // wants to be an authority
				},
				usages: []certificatesv1.KeyUsage{certificatesv1.UsageSMIME, certificatesv1.UsageSigning, certificatesv1.UsageClientAuth, certificatesv1.UsageEmailProtection},
			})
			block, _ := pem.Decode(r.Status.Certificate)
			leaf, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			if left := time.Until(leaf.NotAfter); left != c.want || time.Since(leaf.NotBefore) != 5*time.Minute {
				t.Errorf("%d s: valid from %v ago, for %v, want %v", c.seconds, time.Since(leaf.NotBefore), left, c.want)
			}
			if leaf.IsCA || leaf.CheckSignatureFrom(authority.Certificate) != nil || leaf.Subject.String() != "CN=jane,O=makers" ||
				leaf.KeyUsage != x509.KeyUsageDigitalSignature || fmt.Sprint(leaf.ExtKeyUsage) != fmt.Sprint([]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageEmailProtection}) ||
				fmt.Sprint(leaf.DNSNames, leaf.IPAddresses) != "[a.b] [10.0.0.1]" {
				t.Errorf("the certificate has IsCA %t, subject %s, KeyUsage %v, ExtKeyUsage %v, names %v %v, signature %v, "+
					"want false, CN=jane,O=makers, %v, %v, [a.b] [10.0.0.1], one of the authority",
					leaf.IsCA, leaf.Subject, leaf.KeyUsage, leaf.ExtKeyUsage, leaf.DNSNames, leaf.IPAddresses,
					leaf.CheckSignatureFrom(authority.Certificate), x509.KeyUsageDigitalSignature,
					[]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageEmailProtection})
			}
		}
		time.Sleep(10*365*24*time.Hour - time.Hour) // the authority has an hour left
		r := sign(t, authority, wish{signer: "kubernetes.io/legacy-unknown", usages: []certificatesv1.KeyUsage{certificatesv1.UsageAny}})
		block, _ := pem.Decode(r.Status.Certificate)
		if leaf, err := x509.ParseCertificate(block.Bytes); err != nil || !leaf.NotAfter.Equal(authority.Certificate.NotAfter) {
			t.Errorf("ParseCertificate(%x): %v, want a certificate until %v", block.Bytes, err, authority.Certificate.NotAfter)
		}
	})
}

// TestFailed: a request that breaks the rules of its signer fails for good, with the reason.
func TestFailed(t *testing.T) {
	node := pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}
	client := []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature}
	server := []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment}
	const clients, nodes, servers = "kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"
	plain, named := x509.CertificateRequest{Subject: node}, x509.CertificateRequest{Subject: node, DNSNames: []string{"a"}}
	garbage := func(data string) func(*request) {
		return func(r *request) { r.Spec.Request = []byte(data) }
	}
	mailed := named
	mailed.EmailAddresses = []string{"a@b.c"}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		wish wish
		want string // empty for a certificate
	}{
		"client":            {wish{signer: clients, template: plain, usages: client}, ""},
		"client for a year": {wish{signer: clients, template: plain, usages: server}, "invalid usage for client certificate: server auth"},
		"client of nothing": {wish{signer: clients, template: plain, usages: client[1:]}, "missing required usage for client certificate: client auth"},
		"node":              {wish{signer: nodes, template: plain, usages: client}, ""},
		"node with a name":  {wish{signer: nodes, template: named, usages: client}, "DNS subjectAltNames are not allowed"},
		"node as server":    {wish{signer: nodes, template: plain, usages: server}, "usages did not match [client auth digital signature key encipherment]"},
		"not a node": {wish{signer: nodes, template: x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: node.Organization}}, usages: client},
			"subject common name does not begin with system:node:"},
		"masters": {wish{signer: nodes, template: x509.CertificateRequest{Subject: pkix.Name{CommonName: node.CommonName, Organization: []string{"system:nodes", "system:masters"}}}, usages: client},
			"subject organization is not system:nodes"},
		"serving":            {wish{signer: servers, template: named, usages: server}, ""},
		"serving nothing":    {wish{signer: servers, template: plain, usages: server}, "DNS or IP subjectAltName is required"},
		"serving mail":       {wish{signer: servers, template: mailed, usages: server}, "Email subjectAltNames are not allowed"},
		"a small RSA key":    {wish{signer: clients, key: weak, template: plain, usages: client}, ""},
		"unknown usage":      {wish{signer: "kubernetes.io/legacy-unknown", template: plain, usages: []certificatesv1.KeyUsage{"flying"}}, `unrecognized usage values: ["flying"]`},
		"no PEM":             {wish{signer: clients, template: plain, usages: client, change: garbage("x")}, `unable to parse csr "a": PEM block type must be CERTIFICATE REQUEST`},
		"garbage in PEM":     {wish{signer: clients, template: plain, usages: client, change: garbage("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n")}, `unable to parse csr "a": `},
		"a megabyte":         {wish{signer: clients, template: plain, usages: client, change: garbage(strings.Repeat("x", 1<<20))}, `unable to parse csr "a": `},
		"another signature":  {wish{signer: clients, template: plain, usages: client, change: breakSignature}, "unable to verify certificate request signature: "},
		"denied as well":     {wish{signer: clients, template: plain, usages: client, change: condition(certificatesv1.CertificateDenied)}, "untouched"},
		"failed before":      {wish{signer: clients, template: plain, usages: client, change: condition(certificatesv1.CertificateFailed)}, "untouched"},
		"of another signer":  {wish{signer: "example.com/ca", template: plain, usages: client}, "untouched"},
		"issued by somebody": {wish{signer: clients, template: plain, usages: client, change: func(r *request) { r.Status.Certificate = []byte("x") }}, "untouched"},
	} {
		synctest.Test(t, func(t *testing.T) {
			authority, err := pki.New()
			if err != nil {
				t.Fatal(err)
			}
			r := sign(t, authority, c.wish)
			switch {
			case c.want == "untouched" || r == nil:
				if r != nil || c.want != "untouched" {
					t.Errorf("%s: sign() = %+v, want %q, where untouched means nil", name, r, c.want)
				}
			case c.want == "":
				if len(r.Status.Certificate) == 0 {
					t.Errorf("%s: sign() has the status %+v, want a certificate", name, r.Status)
				}
			default:
				last := r.Status.Conditions[len(r.Status.Conditions)-1]
				if last.Type != certificatesv1.CertificateFailed || last.Status != corev1.ConditionTrue || last.Reason != "SignerValidationFailure" || !strings.HasPrefix(last.Message, c.want) || len(r.Status.Certificate) > 0 {
					t.Errorf("%s: %+v, want %s", name, last, c.want)
				}
			}
		})
	}
}

func condition(kind certificatesv1.RequestConditionType) func(*request) {
	return func(r *request) {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue})
	}
}

// breakSignature changes the last byte of a request, which is one of its signature.
func breakSignature(r *request) {
	block, _ := pem.Decode(r.Spec.Request)
	block.Bytes[len(block.Bytes)-1] ^= 1
	r.Spec.Request = pem.EncodeToMemory(block)
}
